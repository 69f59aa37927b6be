//! Credentials, sound and forged, and handshakes in memory.

use meshtoll_identity::{Credentials, MeshCa, TlsVersions};
use meshtoll_model::ids::SpiffeId;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, pki_types::ServerName};
use std::{
    io::{Read as _, Write as _},
    sync::Arc,
    time::Duration,
};
use time::OffsetDateTime;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What Istio sends for a host outside of the mesh.
pub(crate) const SNI: &str = "outbound_.27017_._.airline.mongodb.example";

pub(crate) fn id(service_account: &str) -> SpiffeId {
    format!("spiffe://cluster.local/ns/default/sa/{service_account}").parse().unwrap()
}

pub(crate) fn credentials(ca: &MeshCa, service_account: &str) -> Credentials {
    let issued = ca.issue(&id(service_account), HOUR).unwrap();
    from_pem(&issued.chain_pem, &issued.key_pem, &ca.trust_bundle_pem())
}

pub(crate) fn from_pem(chain: &str, key: &str, bundle: &str) -> Credentials {
    from_pem_with(chain, key, bundle, TlsVersions::default())
}

pub(crate) fn from_pem_with(chain: &str, key: &str, bundle: &str, versions: TlsVersions) -> Credentials {
    Credentials::from_pem_with(chain.as_bytes(), key.as_bytes(), bundle.as_bytes(), versions).unwrap()
}

/// A certificate of `ca` that it would never issue.
pub(crate) struct Forged {
    pub(crate) params: CertificateParams,
}

impl Forged {
    /// As the authority issues it, to be changed.
    pub(crate) fn booking() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.not_before = OffsetDateTime::now_utc() - HOUR;
        params.not_after = OffsetDateTime::now_utc() + HOUR;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        Self { params }.uris(&["spiffe://cluster.local/ns/default/sa/booking"])
    }

    pub(crate) fn uris(mut self, uris: &[&str]) -> Self {
        self.params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        self
    }

    pub(crate) fn dns(mut self, name: &str) -> Self {
        self.params.subject_alt_names.push(SanType::DnsName(name.try_into().unwrap()));
        self
    }

    /// Valid for an hour from `start` on, hours from now.
    pub(crate) fn starting(mut self, start: i32) -> Self {
        self.params.not_before = OffsetDateTime::now_utc() + time::Duration::hours(start.into());
        self.params.not_after = self.params.not_before + HOUR;
        self
    }

    pub(crate) fn usage(mut self, usage: ExtendedKeyUsagePurpose) -> Self {
        self.params.extended_key_usages = vec![usage];
        self
    }

    /// Chain and key, PEM.
    pub(crate) fn sign(self, ca: &MeshCa) -> (String, String) {
        let kept = ca.to_pem();
        let root = kept.trust_bundle_pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
        let issuer = Issuer::from_ca_cert_pem(root, KeyPair::from_pem(&kept.key_pem).unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        (self.params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A connection, and why it refused its peer.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    error: Option<rustls::Error>,
}

impl Side {
    fn new(connection: impl Into<Connection>) -> Self {
        Self { connection: connection.into(), error: None }
    }

    /// What it has to say; a side that refused says so.
    fn said(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    fn hear(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            self.connection.read_tls(&mut bytes).unwrap();
            self.error = self.connection.process_new_packets().err();
        }
    }
}

/// Both sides after a handshake.
pub(crate) struct Shaken {
    pub(crate) client: Side,
    pub(crate) server: Side,
}

impl Shaken {
    #[track_caller]
    pub(crate) fn accepted(self) -> Self {
        assert_eq!((&self.client.error, &self.server.error), (&None, &None));
        assert!(!self.client.connection.is_handshaking() && !self.server.connection.is_handshaking());
        self
    }

    /// The client says something, and the server hears it.
    #[track_caller]
    pub(crate) fn say_something(&mut self) {
        self.client.connection.writer().write_all(b"something").unwrap();
        let said = self.client.said();
        self.server.hear(&said);
        let mut heard = [0; 9];
        self.server.connection.reader().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"something");
    }

    /// What the client says, which has to have refused.
    #[track_caller]
    pub(crate) fn refused_by_client(self) -> String {
        assert!(matches!(self.server.error, Some(rustls::Error::AlertReceived(_))), "{:?}", self.server.error);
        self.client.error.expect("the client accepted").to_string()
    }

    /// What the server says, which has to have refused, and told the client.
    #[track_caller]
    pub(crate) fn refused_by_server(self) -> String {
        assert!(matches!(self.client.error, Some(rustls::Error::AlertReceived(_))), "{:?}", self.client.error);
        self.server.error.expect("the server accepted").to_string()
    }
}

/// A handshake, until neither side has anything more to say.
pub(crate) fn shake(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Shaken {
    let mut client = Side::new(ClientConnection::new(client, ServerName::try_from(SNI).unwrap()).unwrap());
    let mut server = Side::new(ServerConnection::new(server).unwrap());
    loop {
        let (to_server, to_client) = (client.said(), server.said());
        if to_server.is_empty() && to_client.is_empty() {
            return Shaken { client, server };
        }
        server.hear(&to_server);
        client.hear(&to_client);
    }
}
