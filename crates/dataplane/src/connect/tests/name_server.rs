//! A name server on a real socket that answers what a test says.

use super::super::{NameServers, ResolverSettings};
use hickory_resolver::proto::{
    op::{Message, ResponseCode},
    rr::{RData, Record, RecordType},
};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{
    net::UdpSocket,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::AbortHandle,
};

pub(super) struct NameServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    zone: Mutex<Zone>,
    /// Taken while no answers are to be sent.
    answering: Arc<Semaphore>,
    queries: watch::Sender<Vec<String>>,
}

#[derive(Default)]
struct Zone {
    names: HashMap<String, Answer>,
    ignores_ipv6: bool,
}

#[derive(Clone)]
enum Answer {
    Addresses(Vec<IpAddr>, u32),
    Failure,
}

impl NameServer {
    pub(super) async fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::new(Shared {
            zone: Mutex::default(),
            answering: Arc::new(Semaphore::new(1)),
            queries: watch::Sender::default(),
        });
        let task = tokio::spawn(serve(socket, shared.clone())).abort_handle();
        Self { address, shared, task }
    }

    pub(super) fn settings(&self) -> ResolverSettings {
        ResolverSettings { name_servers: NameServers::Given(vec![self.address]), ..ResolverSettings::default() }
    }

    /// From now on `name` has these addresses, for `ttl` seconds.
    pub(super) fn set(&self, name: &str, addresses: &[&str], ttl: u32) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.shared.zone.lock().unwrap().names.insert(name.into(), Answer::Addresses(addresses, ttl));
    }

    /// From now on queries for `name` are answered with SERVFAIL.
    pub(super) fn fail(&self, name: &str) {
        self.shared.zone.lock().unwrap().names.insert(name.into(), Answer::Failure);
    }

    /// From now on queries for IPv6 are not answered.
    pub(super) fn ignore_ipv6(&self) {
        self.shared.zone.lock().unwrap().ignores_ipv6 = true;
    }

    /// Nothing is answered until what this returns is dropped.
    pub(super) async fn hold(&self) -> OwnedSemaphorePermit {
        self.shared.answering.clone().acquire_owned().await.unwrap()
    }

    /// How many queries for `name` came.
    pub(super) fn asked(&self, name: &str) -> usize {
        self.shared.queries.borrow().iter().filter(|asked| *asked == name).count()
    }

    /// Waits until so many queries came.
    pub(super) async fn wait_until_asked(&self, queries: usize) {
        self.shared.queries.subscribe().wait_for(|asked| asked.len() >= queries).await.unwrap();
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UdpSocket, shared: Arc<Shared>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; 2048];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
        let query = Message::from_vec(&buffer[..length]).unwrap();
        let asked = query.queries[0].clone();
        let name = asked.name().to_string().trim_end_matches('.').to_ascii_lowercase();
        shared.queries.send_modify(|queries| queries.push(name.clone()));
        let (socket, shared) = (socket.clone(), shared.clone());
        tokio::spawn(async move {
            let _turn = shared.answering.acquire().await.unwrap();
            let answer = {
                let zone = shared.zone.lock().unwrap();
                if zone.ignores_ipv6 && asked.query_type() == RecordType::AAAA {
                    return;
                }
                zone.names.get(&name).cloned()
            };
            let mut response = Message::response(query.metadata.id, query.metadata.op_code);
            response.metadata.recursion_available = true;
            response.add_query(asked.clone());
            match answer {
                None => response.metadata.response_code = ResponseCode::NXDomain,
                Some(Answer::Failure) => response.metadata.response_code = ResponseCode::ServFail,
                Some(Answer::Addresses(addresses, ttl)) => {
                    let data = addresses.into_iter().map(RData::from);
                    for data in data.filter(|data| data.record_type() == asked.query_type()) {
                        response.add_answer(Record::from_rdata(asked.name().clone(), ttl, data));
                    }
                }
            }
            socket.send_to(&response.to_vec().unwrap(), client).await.unwrap();
        });
    }
}
