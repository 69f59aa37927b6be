//! Everything that is stored: databases, their collections, and the open cursors.

use crate::{
    collection::Collection,
    cursor::Cursors,
    error::{Code, CommandError, CommandResult},
};
use std::collections::BTreeMap;

/// Longest `database.collection`: MongoDB's limit.
const MAX_NAMESPACE_BYTES: usize = 255;

/// Longest name of a database: MongoDB's limit.
const MAX_DATABASE_BYTES: usize = 63;

/// All data, in memory. One command at a time.
#[derive(Debug, Default)]
pub(crate) struct Store {
    databases: BTreeMap<String, BTreeMap<String, Collection>>,
    pub(crate) cursors: Cursors,
}

impl Store {
    /// A collection that exists.
    pub(crate) fn collection(&self, db: &str, name: &str) -> Option<&Collection> {
        self.databases.get(db)?.get(name)
    }

    /// A collection that exists, to change it.
    pub(crate) fn collection_mut(&mut self, db: &str, name: &str) -> Option<&mut Collection> {
        self.databases.get_mut(db)?.get_mut(name)
    }

    /// A collection, created when it does not exist.
    pub(crate) fn collection_or_create(&mut self, db: &str, name: &str) -> &mut Collection {
        let collections = self.databases.entry(db.to_owned()).or_default();
        collections.entry(name.to_owned()).or_insert_with(|| Collection::new(format!("{db}.{name}")))
    }

    /// Drops a collection; its database goes with the last one.
    pub(crate) fn drop_collection(&mut self, db: &str, name: &str) -> Option<Collection> {
        let collections = self.databases.get_mut(db)?;
        let dropped = collections.remove(name);
        if collections.is_empty() {
            self.databases.remove(db);
        }
        dropped
    }

    /// Drops a database; `false` when there is none.
    pub(crate) fn drop_database(&mut self, db: &str) -> bool {
        self.databases.remove(db).is_some()
    }

    /// The databases with their collections, by name.
    pub(crate) fn databases(&self) -> &BTreeMap<String, BTreeMap<String, Collection>> {
        &self.databases
    }
}

/// `database.collection`, once both are names that MongoDB allows.
pub(crate) fn namespace(db: &str, collection: &str) -> CommandResult<String> {
    check_database(db)?;
    let allowed = !collection.is_empty()
        && !collection.starts_with('.')
        && !collection.contains(['$', '\0'])
        && db.len() + 1 + collection.len() <= MAX_NAMESPACE_BYTES;
    let namespace = format!("{db}.{collection}");
    if allowed { Ok(namespace) } else { Err(invalid(&namespace)) }
}

/// Refuses what cannot name a database.
pub(crate) fn check_database(db: &str) -> CommandResult<()> {
    let forbidden = |c| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '$' | '*' | '<' | '>' | ':' | '|' | '?' | '\0');
    let allowed = !db.is_empty() && db.len() <= MAX_DATABASE_BYTES && !db.contains(forbidden);
    if allowed { Ok(()) } else { Err(invalid(db)) }
}

fn invalid(namespace: &str) -> CommandError {
    CommandError::new(Code::InvalidNamespace, format!("Invalid namespace specified '{namespace}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(namespace("db", "a.b").unwrap(), "db.a.b");
        for (db, collection) in [("", "c"), ("a.b", "c"), ("db", ""), ("db", ".c"), ("db", "a$b"), ("db", "a\0")] {
            assert_eq!(namespace(db, collection).unwrap_err().code, Code::InvalidNamespace, "{db} {collection}");
        }
        assert!(namespace("db", &"c".repeat(253)).is_err());
        assert!(check_database(&"d".repeat(64)).is_err());
    }

    #[test]
    fn a_database_ends_with_its_last_collection() {
        let mut store = Store::default();
        store.collection_or_create("db", "c");
        assert!(store.drop_collection("db", "c").is_some());
        assert!(store.databases().is_empty());
    }
}
