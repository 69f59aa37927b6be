//! TLS that the proxy speaks for its application to hosts outside of the mesh: configurations are read once, and kept.

use meshtoll_identity::{OriginationError, origination_config};
use meshtoll_policy::routes::Origination;
use rustls::ClientConfig;
use std::sync::{Arc, Mutex, PoisonError};

/// The configurations that were asked for so far.
#[derive(Default)]
pub(crate) struct Originations(Mutex<Vec<(Origination, Arc<ClientConfig>)>>);

impl Originations {
    /// The configuration for these settings; its files are read when they are asked for first.
    pub(crate) fn config(&self, origination: &Origination) -> Result<Arc<ClientConfig>, OriginationError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = known.iter().find(|(settings, _)| settings == origination) {
            return Ok(config.clone());
        }
        let client = origination.client.as_ref().map(|client| (client.chain.as_path(), client.key.as_path()));
        let config =
            origination_config(origination.ca_certificates.as_deref(), &origination.subject_alt_names, client)?;
        known.push((origination.clone(), config.clone()));
        Ok(config)
    }

    /// Forgets all of them, so that their files are read again.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
