//! A database's URI as the application has to write it where the database goes by another name.

use mongodb::options::{ConnectionString, HostInfo, ServerAddress, Tls};
use std::fmt;

/// MongoDB's port, where a URI names none.
const DEFAULT_PORT: u16 = 27017;

/// A database elsewhere: where it is, and its URI under the name that the application knows it by.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalUri {
    /// `HOST:PORT` as the given URI names it, without credentials.
    pub address: String,
    /// The URI with the other host and port. It holds the credentials of the given one.
    pub uri: String,
}

impl fmt::Debug for ExternalUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalUri").field("address", &self.address).field("uri", &"(secret)").finish()
    }
}

/// Why a URI cannot be used. None of it shows the URI, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum ExternalUriError {
    /// The name has to be looked up in DNS for further names, which only that DNS knows.
    #[error(
        "a mongodb+srv:// URI cannot be used: write mongodb://HOST:PORT/?tls=true with one of the hosts that it stands for"
    )]
    Srv,
    /// The driver does not understand it.
    #[error("the database's URI is wrong: write mongodb://HOST:PORT/?tls=true, with `%`-escapes in user and password")]
    Malformed(#[source] mongodb::error::Error),
    /// A URI has ASCII characters only (RFC 3986, 2.1); the driver panics at some others.
    #[error("the database's URI has other than ASCII characters: write them as `%`-escapes of their UTF-8 bytes")]
    NotAscii,
    /// More than one host, of which the mesh could route to one only.
    #[error("the database's URI names {0} hosts: name one, the primary of a replica set or a mongos")]
    SeveralHosts(usize),
    /// A socket of this machine, which is in no network.
    #[error("the database's URI names a Unix domain socket: write mongodb://HOST:PORT/?tls=true")]
    UnixSocket,
    /// The mesh routes by the server name in TLS, and without it by nothing.
    #[error(
        "the database's URI does not ask for TLS: add tls=true, as the mesh routes by the name in the TLS handshake"
    )]
    NoTls,
    /// It asks for TLS that proves nothing.
    #[error(
        "the database's URI turns the check of the certificate off: leave the option out, and name the certificate's CA"
    )]
    Insecure,
    /// A file is named, which would be looked for where the application runs.
    #[error(
        "the database's URI has {0}: leave it out; a CA is named beside the URI, and client certificates are not supported"
    )]
    File(&'static str),
}

/// Puts `host` and `port` in the place of a URI's own; credentials, authentication database and options stay.
///
/// `directConnection=true` is added, unless the URI says what it wants of it or speaks to a load balancer: the driver would
/// else go on to the names by which a replica set's members know each other, and those are unknown where the
/// application runs.
pub fn external_uri(uri: &str, host: &str, port: u16) -> Result<ExternalUri, ExternalUriError> {
    if uri.starts_with("mongodb+srv:") {
        return Err(ExternalUriError::Srv);
    }
    if !uri.is_ascii() {
        return Err(ExternalUriError::NotAscii);
    }
    let parsed = ConnectionString::parse(uri).map_err(ExternalUriError::Malformed)?;
    let address = address(&parsed.host_info)?;
    let tls = match &parsed.tls {
        None | Some(Tls::Disabled) => return Err(ExternalUriError::NoTls),
        Some(Tls::Enabled(options)) => options,
    };
    if tls.allow_invalid_certificates == Some(true) {
        return Err(ExternalUriError::Insecure);
    }
    if tls.ca_file_path.is_some() {
        return Err(ExternalUriError::File("tlsCAFile"));
    }
    if tls.cert_key_file_path.is_some() {
        return Err(ExternalUriError::File("tlsCertificateKeyFile"));
    }

    let Parts { user, path, options } = split(uri);
    let mut written = format!("mongodb://{user}{host}:{port}/{path}?{options}");
    if parsed.direct_connection.is_none() && parsed.load_balanced != Some(true) {
        written.push_str("&directConnection=true");
    }
    Ok(ExternalUri { address, uri: written })
}

fn address(hosts: &HostInfo) -> Result<String, ExternalUriError> {
    match hosts {
        HostInfo::HostIdentifiers(hosts) => match hosts.as_slice() {
            [ServerAddress::Tcp { host, port }] => {
                // The driver gives an IPv6 address back without its brackets.
                let brackets = host.contains(':');
                let (open, close) = if brackets { ("[", "]") } else { ("", "") };
                Ok(format!("{open}{host}{close}:{}", port.unwrap_or(DEFAULT_PORT)))
            }
            [_] => Err(ExternalUriError::UnixSocket),
            several => Err(ExternalUriError::SeveralHosts(several.len())),
        },
        _ => Err(ExternalUriError::Srv),
    }
}

/// What of a URI is kept, as it is written.
struct Parts<'a> {
    /// User and password with their `@`, or nothing.
    user: &'a str,
    /// The database that authenticates, or nothing.
    path: &'a str,
    options: &'a str,
}

/// Splits a URI that the driver has understood at the places where the driver splits it.
fn split(uri: &str) -> Parts<'_> {
    let (_, rest) = uri.split_once("://").unwrap_or(("", uri));
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, hosts) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
    let (_, path) = hosts.split_once('/').unwrap_or((hosts, ""));
    Parts { user, path, options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewritten(uri: &str) -> Result<ExternalUri, ExternalUriError> {
        external_uri(uri, "airline.mongodb.example", 27017)
    }

    #[test]
    fn the_host_is_replaced_and_the_rest_stays() {
        let uri =
            rewritten("mongodb://ada:l%40ce@db.example.com:27018/admin?tls=true&authMechanism=SCRAM-SHA-256").unwrap();
        assert_eq!(uri.address, "db.example.com:27018");
        assert_eq!(
            uri.uri,
            "mongodb://ada:l%40ce@airline.mongodb.example:27017/admin?tls=true&authMechanism=SCRAM-SHA-256&directConnection=true"
        );
        let parsed = ConnectionString::parse(&uri.uri).unwrap();
        let credential = parsed.credential.unwrap();
        assert_eq!((credential.username.as_deref(), credential.password.as_deref()), (Some("ada"), Some("l@ce")));
    }

    #[test]
    fn credentials_are_not_shown() {
        let uri = rewritten("mongodb://ada:lovelace@db.example.com/?ssl=true").unwrap();
        assert!(uri.uri.contains("lovelace"));
        for shown in [&uri.address, &format!("{uri:?}")] {
            assert!(!shown.contains("ada") && !shown.contains("lovelace"), "{shown}");
        }
        for wrong in [
            "mongodb://ada:lovelace@db/",
            "mongodb://ada:lovelace@a,b/?tls=true",
            "mongodb://ada:lovelace@:x/?tls=true",
        ] {
            let error = whole(&rewritten(wrong).unwrap_err());
            assert!(!error.contains("lovelace"), "{error}");
        }
    }

    fn whole(error: &dyn std::error::Error) -> String {
        let source = error.source().map(whole).unwrap_or_default();
        format!("{error}: {source}; {error:?}")
    }

    #[test]
    fn the_connection_is_direct_unless_the_uri_says_otherwise() {
        let direct = |uri| ConnectionString::parse(rewritten(uri).unwrap().uri).unwrap().direct_connection;
        assert_eq!(direct("mongodb://db/?tls=true"), Some(true));
        assert_eq!(direct("mongodb://db/?tls=true&replicaSet=rs0"), Some(true));
        assert_eq!(direct("mongodb://db/?directconnection=false&tls=true"), Some(false));
        assert_eq!(direct("mongodb://db/?loadBalanced=true&tls=true"), None);
    }

    #[test]
    fn addresses_are_told_as_they_are_connected_to() {
        let address = |uri| rewritten(uri).unwrap().address;
        assert_eq!(address("mongodb://127.0.0.1/?tls=true"), "127.0.0.1:27017");
        assert_eq!(address("mongodb://[::1]:4000/?tls=true"), "[::1]:4000");
        assert_eq!(address("mongodb://db.example.com:1?tls=true"), "db.example.com:1");
    }

    #[test]
    fn what_the_mesh_cannot_carry_is_refused() {
        use ExternalUriError::*;
        let refused = |uri| rewritten(uri).unwrap_err();
        assert!(matches!(refused("mongodb+srv://cluster.example.com/?tls=true"), Srv));
        assert!(matches!(refused("mongodb://a,b/?tls=true"), SeveralHosts(2)));
        assert!(matches!(refused("mongodb://%2Ftmp%2Fmongodb.sock/?tls=true"), UnixSocket));
        assert!(matches!(refused("mongodb://db/"), NoTls));
        assert!(matches!(refused("mongodb://db/?tls=false"), NoTls));
        assert!(matches!(refused("mongodb://db/?tls=true&tlsInsecure=true"), Insecure));
        assert!(matches!(refused("mongodb://db/?tls=true&tlsCAFile=ca.pem"), File("tlsCAFile")));
        assert!(matches!(refused("mongodb://db/?tls=true&tlsCertificateKeyFile=c.pem"), File("tlsCertificateKeyFile")));
        assert!(matches!(refused("http://db/?tls=true"), Malformed(_)));
        assert!(matches!(refused("db:27017"), Malformed(_)));
    }

    proptest! {
        /// What the driver reads from the rewritten URI is what it read from the given one, but for the host.
        #[test]
        fn nothing_but_the_host_changes(
            user in proptest::option::of(("[a-z0-9]{1,4}(%40|%3A)?", proptest::option::of("[a-zA-Z0-9._~-]{0,6}(%2F|%3F)?"))),
            host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}(:[1-9][0-9]{0,3})?",
            database in proptest::option::of("[a-z]{0,6}"),
            app in "[a-zA-Z0-9]{1,5}(%40|@|/|:)?",
        ) {
            let user = user.map_or_else(String::new, |(name, password)| {
                format!("{name}{}@", password.map_or_else(String::new, |password| format!(":{password}")))
            });
            let database = database.map_or_else(String::new, |name| format!("/{name}"));
            let given = format!("mongodb://{user}{host}{database}?tls=true&appName={app}");
            let mut before = ConnectionString::parse(&given).unwrap();
            let after = ConnectionString::parse(rewritten(&given).unwrap().uri).unwrap();
            let expected = ServerAddress::Tcp { host: "airline.mongodb.example".into(), port: Some(27017) };
            before.host_info = HostInfo::HostIdentifiers(vec![expected]);
            before.direct_connection = Some(true);
            prop_assert_eq!(before, after);
        }

        #[test]
        fn a_character_behind_a_percent_sign_is_refused(text in "mongodb://%\\PC@db") {
            let is_ascii = text.is_ascii();
            prop_assert_eq!(matches!(rewritten(&text), Err(ExternalUriError::NotAscii)), !is_ascii);
        }

        #[test]
        fn any_text_is_an_answer(text in "(mongodb://)?.{0,60}") {
            let _ = rewritten(&text);
        }
    }
}
