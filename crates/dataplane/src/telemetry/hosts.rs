//! Which requested hosts have a label of their own: whoever connects can ask for any number of names.

use arc_swap::ArcSwap;
use meshtoll_model::host::HostPattern;
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

/// The label of every host that no route names.
static OTHER: LazyLock<Arc<str>> = LazyLock::new(|| "other".into());

/// The hosts of the routes in force.
#[derive(Debug, Default)]
pub(super) struct KnownHosts(ArcSwap<Known>);

#[derive(Debug, Default)]
struct Known {
    names: BTreeSet<Arc<str>>,
    /// The longest first, since it says most.
    patterns: Vec<(HostPattern, Arc<str>)>,
}

impl KnownHosts {
    /// Knows these hosts from now on, and no others.
    pub(super) fn set<'a>(&self, hosts: impl IntoIterator<Item = &'a HostPattern>) {
        let (patterns, names): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| host.is_wildcard());
        let mut patterns: Vec<_> = patterns.into_iter().map(|host| (host.clone(), host.as_str().into())).collect();
        patterns.sort_by_key(|(_, label): &(_, Arc<str>)| std::cmp::Reverse(label.len()));
        let names = names.into_iter().map(|host| host.as_str().into()).collect();
        self.0.store(Arc::new(Known { names, patterns }));
    }

    /// The host itself where a route names it, the pattern that it matches, or `other`.
    pub(super) fn label(&self, requested: &str) -> Arc<str> {
        let known = self.0.load();
        let name = known.names.get(requested).or_else(|| known.names.get(requested.to_ascii_lowercase().as_str()));
        let pattern = || known.patterns.iter().find(|(pattern, _)| pattern.matches(requested)).map(|(_, label)| label);
        name.or_else(pattern).unwrap_or(&OTHER).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(hosts: &[&str]) -> KnownHosts {
        let hosts: Vec<HostPattern> = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let known = KnownHosts::default();
        known.set(&hosts);
        known
    }

    #[test]
    fn the_most_telling_label_is_chosen() {
        let known = known(&["*.example", "airline.mongodb.example", "*.mongodb.example"]);
        for (requested, label) in [
            ("airline.mongodb.example", "airline.mongodb.example"),
            ("AIRLINE.mongodb.example", "airline.mongodb.example"),
            ("other.mongodb.example", "*.mongodb.example"),
            ("a.example", "*.example"),
            ("example", "other"),
            ("", "other"),
        ] {
            assert_eq!(&*known.label(requested), label, "{requested}");
        }
        known.set([]);
        assert_eq!(&*known.label("airline.mongodb.example"), "other");
    }

    proptest! {
        #[test]
        fn there_are_no_more_labels_than_hosts_and_one(requested in ".{0,300}|[a-z]{1,3}\\.mongodb\\.example") {
            let label = known(&["airline.mongodb.example", "*.mongodb.example"]).label(&requested);
            prop_assert!(["airline.mongodb.example", "*.mongodb.example", "other"].contains(&&*label), "{}", label);
        }
    }
}
