//! Sessions that need no store: the cookie says who is logged in until when, and its signature that it is so.

use super::documents::CustomerId;
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Name of the cookie.
pub const COOKIE_NAME: &str = "airline_session";
/// How long a session lasts.
pub const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Shortest key: what HMAC-SHA-256 makes full use of (RFC 2104, section 3).
const MIN_KEY_BYTES: usize = 32;
const EXPIRY_BYTES: usize = size_of::<u64>();

/// The key that signs sessions; it never shows in logs.
#[derive(Clone)]
pub struct SessionKey(Arc<hmac::Key>);

/// The key is shorter than 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session key needs at least {MIN_KEY_BYTES} random bytes, this one has {bytes}")]
pub struct SessionKeyTooShort {
    /// Its length.
    pub bytes: usize,
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSession {
    /// It is not of the form that [`SessionKey::issue`] gives.
    #[error("the session token is malformed")]
    Malformed,
    /// Its signature is not by this key.
    #[error("the session token is not signed with this service's key")]
    Forged,
    /// Its time is over.
    #[error("the session has expired")]
    Expired,
}

impl SessionKey {
    /// A key of at least 32 random bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SessionKeyTooShort> {
        if bytes.len() < MIN_KEY_BYTES {
            return Err(SessionKeyTooShort { bytes: bytes.len() });
        }
        Ok(Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes))))
    }

    /// The token of a customer's session: `PAYLOAD.SIGNATURE`, both base64url; the payload is the expiry in seconds since
    /// 1970 (8 bytes, big endian), then the customer's id.
    pub fn issue(&self, customer: &CustomerId, expires: SystemTime) -> String {
        let mut payload = Vec::with_capacity(EXPIRY_BYTES + customer.as_str().len());
        payload.extend_from_slice(&unix_seconds(expires).to_be_bytes());
        payload.extend_from_slice(customer.as_str().as_bytes());
        let signature = hmac::sign(&self.0, &payload);
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(signature))
    }

    /// Whose session a token is, if it is one of this key's that has not expired.
    ///
    /// The signature is compared in constant time, and before anything in the payload is believed.
    pub fn verify(&self, token: &str, now: SystemTime) -> Result<CustomerId, InvalidSession> {
        let (payload, signature) = token.split_once('.').ok_or(InvalidSession::Malformed)?;
        let decode = |part| URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidSession::Malformed);
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        hmac::verify(&self.0, &payload, &signature).map_err(|_| InvalidSession::Forged)?;
        let (expiry, customer) = payload.split_first_chunk::<EXPIRY_BYTES>().ok_or(InvalidSession::Malformed)?;
        if unix_seconds(now) >= u64::from_be_bytes(*expiry) {
            return Err(InvalidSession::Expired);
        }
        let customer = str::from_utf8(customer).map_err(|_| InvalidSession::Malformed)?;
        Ok(CustomerId::new(customer))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(secret)")
    }
}

/// Whole seconds since 1970; none before.
fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> SessionKey {
        SessionKey::new(&[7; 32]).unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_token_is_good_until_its_expiry() {
        let token = key().issue(&CustomerId::new("uid1@airline.example"), at(100));
        assert_eq!(key().verify(&token, at(99)).unwrap().as_str(), "uid1@airline.example");
        assert_eq!(key().verify(&token, at(100)), Err(InvalidSession::Expired));
    }

    #[test]
    fn another_key_refuses_it() {
        let token = key().issue(&CustomerId::new("uid1"), at(100));
        let other = SessionKey::new(&[8; 32]).unwrap();
        assert_eq!(other.verify(&token, at(0)), Err(InvalidSession::Forged));
    }

    #[test]
    fn a_signed_payload_without_expiry_is_malformed() {
        let signature = hmac::sign(&key().0, b"short");
        let token = format!("{}.{}", URL_SAFE_NO_PAD.encode("short"), URL_SAFE_NO_PAD.encode(signature));
        assert_eq!(key().verify(&token, at(0)), Err(InvalidSession::Malformed));
    }

    #[test]
    fn short_keys_are_refused_and_keys_are_not_shown() {
        assert_eq!(SessionKey::new(&[1; 31]).unwrap_err().bytes, 31);
        assert_eq!(format!("{:?}", key()), "SessionKey(secret)");
    }

    proptest! {
        #[test]
        fn any_id_comes_back(id in ".{0,64}", expires in 1u64..1 << 40) {
            let token = key().issue(&CustomerId::new(&id), at(expires));
            prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
            prop_assert_eq!(key().verify(&token, at(expires - 1)), Ok(CustomerId::new(id)));
        }

        #[test]
        fn any_changed_character_is_noticed(position in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]") {
            let token = key().issue(&CustomerId::new("uid1@airline.example"), at(100));
            let mut changed = token.clone();
            let position = position.index(token.len());
            changed.replace_range(position..=position, &with);
            prop_assume!(changed != token);
            prop_assert!(key().verify(&changed, at(0)).is_err());
        }

        #[test]
        fn noise_is_refused(noise in ".{0,200}") {
            prop_assert!(key().verify(&noise, at(0)).is_err());
        }
    }
}
