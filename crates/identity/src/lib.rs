//! Who is who: the mesh's certificate authority and the SPIFFE certificates of workloads, and the authority of
//! what is outside the mesh (the external database).
//!
//! Keys are ECDSA P-256. They leave this crate as PEM text that the callers write to files readable by one
//! process; they are kept out of every `Debug` output. Overwriting that text in memory would not help, since
//! it has to be handed on in plain.
//!
//! Out of scope: intermediate authorities, revocation, certificate requests, and keeping an authority across runs: each
//! run makes its own and forgets it.

mod authority;
mod error;
mod external;
mod mesh;

pub use error::IdentityError;
pub use external::{ExternalCa, ServerCertificate};
pub use mesh::{MeshCa, WorkloadCertificate};
