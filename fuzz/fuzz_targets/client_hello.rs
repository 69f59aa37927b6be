//! The parser of ClientHellos never panics, keeps its promises on what is missing, and does not read past the hello.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The parsers alone, since the rest of the data plane needs a library in C that takes minutes to build.
#[allow(dead_code, reason = "the module has what its crate needs")]
#[path = "../../crates/dataplane/src/classify/mod.rs"]
mod classify;
use classify::client_hello::{ClientHelloError, MAX_HELLO, parse};

fuzz_target!(|bytes: &[u8]| {
    // The other parser of first bytes, too: it has to keep from panicking.
    let _ = classify::http_host::parse(bytes);
    match parse(bytes) {
        Ok(hello) => {
            if let Some(name) = hello.server_name() {
                assert!((1..=253).contains(&name.len()) && name.is_ascii());
            }
            assert!(hello.alpn().all(|protocol| !protocol.is_empty()));
        }
        Err(ClientHelloError::Incomplete { needed_at_least }) => {
            assert!(bytes.len() < needed_at_least && needed_at_least <= MAX_HELLO);
        }
        Err(ClientHelloError::NotTls | ClientHelloError::Malformed(_)) => {
            // More bytes never mend it.
            assert!(!matches!(parse(&[bytes, &[0; 64]].concat()), Ok(_) | Err(ClientHelloError::Incomplete { .. })));
        }
    }
});
