use hickory_proto::{ProtoError, rr::Name};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashSet},
    net::Ipv4Addr,
};

/// Names and their addresses.
///
/// Its JSON form: `{"ttl": 5, "records": {"db.example": ["10.88.0.2"], "*.wild.example": ["10.88.0.3"]}}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// How long answers may be kept, s.
    ttl: u32,
    /// By name in lower case, without the final dot.
    records: BTreeMap<String, Vec<Ipv4Addr>>,
    /// Every name with a record and every name above one: the names that "exist" (RFC 4592).
    existing: HashSet<String>,
}

/// What a zone says to a question for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The name exists and has these addresses: none when only names below it have some.
    Addresses(&'a [Ipv4Addr]),
    /// There is no such name.
    NoSuchName,
}

/// Why a text is no zone.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// Not the JSON that a zone is written in.
    #[error("the zone is malformed: {source}")]
    Malformed {
        /// Where and why.
        source: serde_json::Error,
    },
    /// A record's name is no DNS name.
    #[error("`{name}` in the zone is no DNS name")]
    Name {
        /// The name.
        name: String,
        /// Why.
        source: ProtoError,
    },
    /// Two records differ in nothing but case.
    #[error("`{name}` is in the zone twice")]
    Twice {
        /// The name.
        name: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ttl: u32,
    records: BTreeMap<String, Vec<Ipv4Addr>>,
}

impl Zone {
    /// A zone with these names (or wildcards, `*.NAME`), each with its addresses.
    pub fn new(ttl: u32, records: BTreeMap<String, Vec<Ipv4Addr>>) -> Result<Self, ZoneError> {
        let mut zone = Self { ttl, records: BTreeMap::new(), existing: HashSet::new() };
        for (text, addresses) in records {
            let name = Name::from_utf8(&text).map_err(|source| ZoneError::Name { name: text.clone(), source })?;
            let name = canonical(&name);
            let mut above = Some(name.as_str());
            while let Some(each) = above {
                zone.existing.insert(each.to_owned());
                above = parent(each);
            }
            if zone.records.insert(name, addresses).is_some() {
                return Err(ZoneError::Twice { name: text });
            }
        }
        Ok(zone)
    }

    /// Reads the JSON form.
    pub fn parse(json: &str) -> Result<Self, ZoneError> {
        let Written { ttl, records } = serde_json::from_str(json).map_err(|source| ZoneError::Malformed { source })?;
        Self::new(ttl, records)
    }

    /// The JSON form.
    pub fn to_json(&self) -> String {
        let written = Written { ttl: self.ttl, records: self.records.clone() };
        serde_json::to_string(&written).unwrap_or_else(|_| unreachable!("a map with text keys has a JSON form"))
    }

    /// How long answers may be kept, s.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// Looks a name up, in any case. A wildcard stands for names of any depth below it, unless another name exists that is
    /// closer to the one asked for (RFC 4592, "closest encloser").
    pub fn look_up(&self, name: &Name) -> Answer<'_> {
        let name = canonical(name);
        if self.existing.contains(&name) {
            return Answer::Addresses(self.records.get(&name).map_or(&[], Vec::as_slice));
        }
        let mut above = parent(&name);
        while let Some(encloser) = above.filter(|encloser| !self.existing.contains(*encloser)) {
            above = parent(encloser);
        }
        let wildcard = above.map_or_else(|| "*".to_owned(), |encloser| format!("*.{encloser}"));
        self.records.get(&wildcard).map_or(Answer::NoSuchName, |addresses| Answer::Addresses(addresses))
    }
}

fn canonical(name: &Name) -> String {
    let mut text = name.to_ascii().to_ascii_lowercase();
    if text.ends_with('.') {
        text.pop();
    }
    text
}

fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JSON: &str = r#"{"ttl":5,"records":{"*.wild.example":["10.88.0.3"],"booking.default.svc.cluster.local":["10.96.0.1"],"db.example":["10.88.0.2","10.88.0.4"],"deep.sub.wild.example":[]}}"#;

    fn answer(name: &str) -> Option<Vec<String>> {
        let zone = Zone::parse(JSON).unwrap();
        match zone.look_up(&Name::from_utf8(name).unwrap()) {
            Answer::Addresses(addresses) => Some(addresses.iter().map(Ipv4Addr::to_string).collect()),
            Answer::NoSuchName => None,
        }
    }

    #[test]
    fn answers_as_rfc_4592_says() {
        let some = |addresses: &[&str]| Some(addresses.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(answer("db.example."), some(&["10.88.0.2", "10.88.0.4"]));
        assert_eq!(answer("DB.Example"), some(&["10.88.0.2", "10.88.0.4"]));
        assert_eq!(answer("cluster.local"), some(&[]), "above a name that exists");
        assert_eq!(answer("a.wild.example"), some(&["10.88.0.3"]));
        assert_eq!(answer("b.a.WILD.example."), some(&["10.88.0.3"]), "any depth");
        assert_eq!(answer("wild.example"), some(&[]), "not the wildcard's own parent");
        assert_eq!(answer("a.sub.wild.example"), None, "`sub.wild.example` exists and is closer");
        assert_eq!(answer("db.example.org"), None);
        assert_eq!(answer("other"), None);
    }

    #[test]
    fn is_written_as_it_is_read() {
        assert_eq!(Zone::parse(JSON).unwrap().to_json(), JSON);
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        assert!(matches!(Zone::parse(r#"{"ttl": 1, "records": {}, "soa": 1}"#), Err(ZoneError::Malformed { .. })));
        assert!(matches!(Zone::parse(r#"{"ttl": 1, "records": {"a..b": []}}"#), Err(ZoneError::Name { .. })));
        assert!(matches!(Zone::parse(r#"{"ttl": 1, "records": {"a": [], "A.": []}}"#), Err(ZoneError::Twice { .. })));
    }

    proptest! {
        #[test]
        fn what_is_below_a_wildcard_is_found(labels in proptest::collection::vec("[a-zA-Z0-9]([a-zA-Z0-9-]{0,8}[a-zA-Z0-9])?", 1..5)) {
            let name = format!("{}.x.test", labels.join("."));
            let records = BTreeMap::from([("*.x.test".to_owned(), vec![Ipv4Addr::LOCALHOST])]);
            let zone = Zone::new(1, records).unwrap();
            prop_assert_eq!(zone.look_up(&Name::from_ascii(name).unwrap()), Answer::Addresses(&[Ipv4Addr::LOCALHOST]));
            prop_assert_eq!(zone.look_up(&Name::from_ascii(labels.join(".")).unwrap()), Answer::NoSuchName);
        }

        #[test]
        fn a_name_in_the_zone_is_found_in_any_case(name in "[a-z]{1,8}(\\.[a-z]{1,8}){0,4}") {
            let zone = Zone::new(1, BTreeMap::from([(name.clone(), vec![Ipv4Addr::LOCALHOST])])).unwrap();
            let asked = Name::from_ascii(name.to_uppercase()).unwrap();
            prop_assert_eq!(zone.look_up(&asked), Answer::Addresses(&[Ipv4Addr::LOCALHOST]));
        }
    }
}
