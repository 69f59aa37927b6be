use super::{Answer, Zone, ZoneError};
use hickory_proto::{
    ProtoError,
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{DNSClass, RData, Record, RecordType, rdata::A},
    serialize::binary::{BinEncodable as _, BinEncoder},
};
use serde::Serialize;
use std::{cell::Cell, fs, io, net::SocketAddrV4, path::PathBuf, rc::Rc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime,
    signal::unix::{SignalKind, signal},
    task::{JoinSet, LocalSet},
};

/// What a client that says nothing else takes by UDP (RFC 1035).
const CLASSIC_PAYLOAD: u16 = 512;
/// The most that is answered by UDP, so that no answer is fragmented.
const LARGEST_PAYLOAD: u16 = 1232;

/// What to serve, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where to listen, by UDP and TCP.
    pub listen: Vec<SocketAddrV4>,
    /// File with the zone in its JSON form.
    pub zone: PathBuf,
}

/// What was asked until the server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Questions that were understood.
    pub queries: u64,
    /// Of these, questions for names that do not exist.
    pub no_such_name: u64,
    /// Messages that are no questions.
    pub malformed: u64,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// No zone file.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No zone in it.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddrV4,
        /// Why.
        source: io::Error,
    },
    /// No runtime, or no signals.
    #[error("cannot start")]
    Start(#[source] io::Error),
    /// A socket broke.
    #[error("cannot go on serving {address}")]
    Serve {
        /// Which.
        address: SocketAddrV4,
        /// Why.
        source: io::Error,
    },
}

/// Serves a zone until SIGTERM, on the calling thread; what was asked meanwhile.
pub fn serve(options: &Options) -> Result<Counts, DnsError> {
    let text =
        fs::read_to_string(&options.zone).map_err(|source| DnsError::Read { path: options.zone.clone(), source })?;
    let server = Rc::new(Server { zone: Zone::parse(&text)?, counts: Cell::default() });
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(DnsError::Start)?;
    LocalSet::new().block_on(&runtime, async {
        let mut end = signal(SignalKind::terminate()).map_err(DnsError::Start)?;
        let mut servers = JoinSet::new();
        for &address in &options.listen {
            let failed = |source| DnsError::Listen { address, source };
            let socket = UdpSocket::bind(address).await.map_err(failed)?;
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let (udp, tcp) = (Rc::clone(&server), Rc::clone(&server));
            servers.spawn_local(async move { (address, udp.serve_udp(&socket).await) });
            servers.spawn_local(async move { (address, tcp.serve_tcp(&listener).await) });
        }
        tokio::select! {
            _ = end.recv() => Ok(server.counts.get()),
            Some(Ok((address, Err(source)))) = servers.join_next() => Err(DnsError::Serve { address, source }),
        }
    })
}

#[derive(Debug)]
struct Server {
    zone: Zone,
    counts: Cell<Counts>,
}

impl Server {
    async fn serve_udp(&self, socket: &UdpSocket) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await?;
            if let Some(answer) = self.answer(&buffer[..length], true) {
                // The client may be gone, and asks again if it is not.
                let _ = socket.send_to(&answer, client).await;
            }
        }
    }

    async fn serve_tcp(self: Rc<Self>, listener: &TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let server = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                if let Err(error) = server.serve_connection(stream).await {
                    tracing::debug!(%error, "a client's connection broke");
                }
            });
        }
    }

    async fn serve_connection(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = match stream.read_u16().await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                length => length?,
            };
            let mut question = vec![0; length.into()];
            stream.read_exact(&mut question).await?;
            let Some(answer) = self.answer(&question, false) else { return Ok(()) };
            // An answer by TCP is encoded within 64 KiB.
            let mut framed = (answer.len() as u16).to_be_bytes().to_vec();
            framed.extend(answer);
            stream.write_all(&framed).await?;
        }
    }

    /// The answer to a message; none to what is no question.
    fn answer(&self, message: &[u8], by_udp: bool) -> Option<Vec<u8>> {
        let mut counts = self.counts.get();
        let question = Message::from_vec(message).ok().filter(|it| it.metadata.message_type == MessageType::Query);
        let answer = question.and_then(|question| {
            let answer = respond(&self.zone, &question);
            let largest = match &question.edns {
                _ if !by_udp => u16::MAX,
                Some(edns) => edns.max_payload().clamp(CLASSIC_PAYLOAD, LARGEST_PAYLOAD),
                None => CLASSIC_PAYLOAD,
            };
            let code = answer.metadata.response_code;
            encode(&answer, largest).ok().map(|bytes| (code, bytes))
        });
        match &answer {
            Some((code, _)) => {
                counts.queries += 1;
                counts.no_such_name += u64::from(*code == ResponseCode::NXDomain);
            }
            None => counts.malformed += 1,
        }
        self.counts.set(counts);
        answer.map(|(_, bytes)| bytes)
    }
}

/// The answer of an authority for every name that the zone may have.
fn respond(zone: &Zone, question: &Message) -> Message {
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.authoritative = true;
    answer.add_queries(question.queries.iter().cloned());
    if question.edns.is_some() {
        let mut edns = hickory_proto::op::Edns::new();
        edns.set_max_payload(LARGEST_PAYLOAD);
        answer.set_edns(edns);
    }
    answer.metadata.response_code = match (question.metadata.op_code, question.queries.as_slice()) {
        (OpCode::Query, [query]) if query.query_class() == DNSClass::IN => match zone.look_up(query.name()) {
            Answer::Addresses(addresses) => {
                if matches!(query.query_type(), RecordType::A | RecordType::ANY) {
                    let record = |address| Record::from_rdata(query.name().clone(), zone.ttl(), RData::A(A(address)));
                    answer.add_answers(addresses.iter().copied().map(record));
                }
                ResponseCode::NoError
            }
            Answer::NoSuchName => ResponseCode::NXDomain,
        },
        (OpCode::Query, [_]) => ResponseCode::Refused,
        (OpCode::Query, _) => ResponseCode::FormErr,
        _ => ResponseCode::NotImp,
    };
    answer
}

/// Encodes an answer; one that is too large is cut down to its question with the truncation bit, so that the client asks by TCP.
fn encode(answer: &Message, largest: u16) -> Result<Vec<u8>, ProtoError> {
    let bytes = encode_whole(answer)?;
    if bytes.len() <= largest.into() { Ok(bytes) } else { encode_whole(&answer.truncate()) }
}

fn encode_whole(answer: &Message) -> Result<Vec<u8>, ProtoError> {
    let mut bytes = Vec::with_capacity(CLASSIC_PAYLOAD.into());
    let mut encoder = BinEncoder::new(&mut bytes);
    answer.emit(&mut encoder)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::{
        op::{Edns, Query},
        rr::Name,
    };
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn server(addresses: u8) -> Server {
        let addresses = (0..addresses).map(|last| Ipv4Addr::new(10, 88, 1, last)).collect();
        let zone = Zone::new(7, [("db.example".to_owned(), addresses)].into()).unwrap();
        Server { zone, counts: Cell::default() }
    }

    fn ask(server: &Server, edit: impl FnOnce(&mut Message)) -> Message {
        let mut question = Message::query();
        question.add_query(Query::query(Name::from_ascii("Db.Example.").unwrap(), RecordType::A));
        question.metadata.recursion_desired = true;
        edit(&mut question);
        let answer = Message::from_vec(&server.answer(&question.to_vec().unwrap(), true).unwrap()).unwrap();
        assert_eq!(answer.metadata.id, question.metadata.id);
        assert_eq!(answer.queries, question.queries);
        answer
    }

    #[test]
    fn answers_with_addresses_and_time_to_live() {
        let answer = ask(&server(2), |_| {});
        let addresses: Vec<_> = answer.answers.iter().map(|record| (record.ttl, record.data.clone())).collect();
        let address = |last| (7, RData::A(A(Ipv4Addr::new(10, 88, 1, last))));
        assert_eq!(addresses, [address(0), address(1)]);
        assert_eq!((answer.metadata.authoritative, answer.metadata.recursion_desired), (true, true));
    }

    #[test]
    fn other_types_of_a_name_that_exists_are_empty_and_no_error() {
        let answer = ask(&server(1), |question| {
            question.queries[0].set_query_type(RecordType::AAAA);
        });
        assert_eq!((answer.metadata.response_code, answer.answers.len()), (ResponseCode::NoError, 0));
    }

    #[test]
    fn unknown_names_do_not_exist_and_are_counted() {
        let server = server(1);
        let answer = ask(&server, |question| {
            question.queries[0].set_name(Name::from_ascii("other.example.").unwrap());
        });
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
        ask(&server, |_| {});
        assert_eq!(server.answer(b"nonsense", true), None);
        assert_eq!(server.counts.get(), Counts { queries: 2, no_such_name: 1, malformed: 1 });
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let code = |edit: fn(&mut Message)| ask(&server(1), edit).metadata.response_code;
        assert_eq!(code(|question| question.metadata.op_code = OpCode::Update), ResponseCode::NotImp);
        assert_eq!(
            code(|question| {
                question.queries[0].set_query_class(DNSClass::CH);
            }),
            ResponseCode::Refused
        );
    }

    #[test]
    fn too_large_an_answer_is_truncated() {
        let server = server(60);
        assert!(ask(&server, |_| {}).metadata.truncation);
        let large = ask(&server, |question| {
            let mut edns = Edns::new();
            edns.set_max_payload(4096);
            question.set_edns(edns);
        });
        assert_eq!((large.metadata.truncation, large.answers.len()), (false, 60));
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(message: Vec<u8>) {
            server(1).answer(&message, true);
        }
    }
}
