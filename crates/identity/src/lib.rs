//! Who is who: the mesh's certificate authority and the SPIFFE certificates of workloads, TLS that believes nobody
//! else, and the authority of what is outside the mesh (the external database).
//!
//! Keys are ECDSA P-256. They leave this crate as PEM text that the callers write to files readable by one
//! process; they are kept out of every `Debug` output and every error. Overwriting that text in memory would not help, since
//! it has to be handed on in plain.
//!
//! Out of scope: intermediate authorities, revocation (certificates are short-lived instead), certificate requests, and trust
//! domains that trust each other.

mod authority;
mod credentials;
mod error;
mod external;
pub mod files;
mod mesh;
mod origination;
mod pem;
mod svid;
mod verify;
mod watch;

pub use credentials::{ALPN, Credentials, CredentialsError, ISTIO_ALPN, TlsVersions};
pub use error::{IdentityError, LoadError};
pub use external::{ExternalCa, ServerCertificate};
pub use mesh::{MeshCa, MeshCaPem, WorkloadCertificate};
pub use origination::{OriginationError, origination_config};
pub use pem::{Part, PemError};
pub use svid::{SvidError, peer_identity};
pub use verify::PeerError;
pub use watch::{CredentialsWatch, Reload, WatchError};
