//! Mutual TLS with the mesh's certificates, as Istio configures it.

use meshtoll_model::ids::SpiffeId;
use serde_json::{Value, json};

pub(super) const CERTIFICATE_CHAIN: &str = "cert-chain.pem";
pub(super) const PRIVATE_KEY: &str = "key.pem";
pub(super) const TRUST_BUNDLE: &str = "root-cert.pem";

/// What sidecars and gateways say they speak inside TLS of the mesh.
const ALPN: &str = "istio";
/// What Istio's proxies may say: a permissive port tells the mesh's TLS from an application's by these.
pub(super) const ISTIO_ALPN: [&str; 5] = [ALPN, "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"];

/// The transport socket of an upstream that has to be `peer`.
pub(super) fn upstream(sni: &str, peer: &SpiffeId) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": sni,
            "common_tls_context": context(json!({ "exact": peer.to_string() })),
        },
    })
}

/// The transport socket of a filter chain whose peers have to be workloads of the trust domain.
pub(super) fn downstream(trust_domain: &str) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": true,
            "common_tls_context": context(json!({ "prefix": format!("spiffe://{trust_domain}/") })),
        },
    })
}

fn context(peer_uri: Value) -> Value {
    json!({
        "alpn_protocols": [ALPN],
        "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
        "tls_certificates": [{
            "certificate_chain": { "filename": CERTIFICATE_CHAIN },
            "private_key": { "filename": PRIVATE_KEY },
        }],
        "validation_context": {
            "trusted_ca": { "filename": TRUST_BUNDLE },
            "match_typed_subject_alt_names": [{ "san_type": "URI", "matcher": peer_uri }],
        },
    })
}
