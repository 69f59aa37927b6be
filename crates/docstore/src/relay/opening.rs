//! What a client's first bytes say of its connection.

use rustls::server::Acceptor;

/// A client's first bytes, as far as they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// More of them are needed.
    Incomplete,
    /// No TLS.
    Plain,
    /// A whole TLS ClientHello.
    Tls {
        /// The server name that the client asks for.
        server_name: Option<String>,
    },
}

/// What looks like TLS, and is not.
#[derive(Debug, thiserror::Error)]
#[error("client sent a malformed TLS ClientHello")]
pub(super) struct MalformedHello(#[source] rustls::Error);

/// Reads what a connection begins with.
///
/// TLS begins with a record of type 22 and version 3.1 to 3.4 (RFC 8446, section 5.1). What else is sent to a database begins
/// with a message's length, which would be 65 kB or more to look the same; no first message of a driver is.
pub(super) fn read(bytes: &[u8]) -> Result<Opening, MalformedHello> {
    match bytes {
        [] | [0x16] | [0x16, 0x03] => return Ok(Opening::Incomplete),
        [0x16, 0x03, 0x01..=0x04, ..] => {}
        _ => return Ok(Opening::Plain),
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let read = acceptor.read_tls(&mut rest);
        read.map_err(|error| MalformedHello(rustls::Error::General(error.to_string())))?;
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let server_name = accepted.client_hello().server_name().map(str::to_owned);
                return Ok(Opening::Tls { server_name });
            }
            Err((error, _)) => return Err(MalformedHello(error)),
        }
    }
    Ok(Opening::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    fn hello(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = name.to_owned().try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn a_hello_is_read_once_it_is_whole() {
        let hello = hello("airline.mongodb.example");
        for length in 0..hello.len() {
            assert_eq!(read(&hello[..length]).unwrap(), Opening::Incomplete, "{length} bytes");
        }
        let whole = Opening::Tls { server_name: Some("airline.mongodb.example".to_owned()) };
        assert_eq!(read(&hello).unwrap(), whole);
        assert_eq!(read(&[&hello[..], b"what follows"].concat()).unwrap(), whole);
    }

    #[test]
    fn an_address_is_no_server_name() {
        assert_eq!(read(&hello("127.0.0.1")).unwrap(), Opening::Tls { server_name: None });
    }

    #[test]
    fn messages_are_no_tls() {
        // Lengths of 22 and 790 bytes.
        assert_eq!(read(&[0x16, 0, 0, 0, 1]).unwrap(), Opening::Plain);
        assert_eq!(read(&[0x16, 3, 0, 0, 1]).unwrap(), Opening::Plain);
        assert_eq!(read(&[0x20]).unwrap(), Opening::Plain);
    }

    #[test]
    fn a_malformed_hello_is_told() {
        let mut hello = hello("airline.mongodb.example");
        hello[5] = 2;
        assert!(read(&hello).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300), tls in any::<bool>()) {
            let start: &[u8] = if tls { &[0x16, 0x03, 0x01] } else { &[] };
            let _ = read(&[start, &bytes].concat());
        }
    }
}
