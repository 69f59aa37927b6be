//! A DNS server whose zone can be changed while it runs.

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{RData, Record, RecordType, rdata::A},
    serialize::binary::BinEncodable as _,
};
use meshtoll_testbed::dns::{Answer, Zone};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, UdpSocket},
    sync::{Arc, Mutex},
    thread,
};

/// How long answers may be kept, s.
pub(crate) const TTL: u32 = 1;

/// Names and addresses, as they are now.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<BTreeMap<String, Vec<Ipv4Addr>>>>);

impl Names {
    pub(crate) fn set(&self, name: &str, addresses: &[Ipv4Addr]) {
        self.0.lock().unwrap().insert(name.to_owned(), addresses.to_vec());
    }

    /// Answers on this socket for as long as the process lives.
    pub(crate) fn serve(&self, socket: UdpSocket) {
        let names = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                let answer = Message::from_vec(&buffer[..length]).ok().map(|question| names.answer(&question));
                if let Some(answer) = answer.and_then(|answer| answer.to_bytes().ok()) {
                    let _ = socket.send_to(&answer, peer);
                }
            }
        });
    }

    fn answer(&self, question: &Message) -> Message {
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.add_queries(question.queries.iter().cloned());
        let zone = Zone::new(TTL, self.0.lock().unwrap().clone()).unwrap();
        let Some(query) = question.queries.first() else { return answer };
        match zone.look_up(query.name()) {
            Answer::NoSuchName => answer.metadata.response_code = ResponseCode::NXDomain,
            Answer::Addresses(addresses) if query.query_type() == RecordType::A => {
                let record = |address: &Ipv4Addr| Record::from_rdata(query.name().clone(), TTL, RData::A(A(*address)));
                answer.add_answers(addresses.iter().map(record));
            }
            Answer::Addresses(_) => {}
        }
        answer
    }
}
