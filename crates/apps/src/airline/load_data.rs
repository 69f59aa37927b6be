//! Fills the database.

use super::{
    data,
    database::{self, DatabaseError},
    documents::{Credentials, Customer, collections},
};
use mongodb::{
    Database, IndexModel,
    bson::{Document, doc},
};
use serde::Serialize;
use std::{io, path::PathBuf};

/// Documents an insert: well below the 48 MB that a message may have, and few round trips.
const BATCH: usize = 2000;

/// What to load, and where.
#[derive(Clone)]
pub struct LoadDataOptions {
    /// The database's `mongodb://` URI.
    pub database: String,
    /// PEM file with the certificates that the database's is checked against; the public ones when there is none.
    pub database_ca: Option<PathBuf>,
    /// Name of the database; what it holds is dropped.
    pub database_name: String,
    /// Number of customers.
    pub customers: u32,
}

/// How many documents were inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadedCounts {
    /// Customers.
    pub customers: u64,
    /// Airports.
    pub airports: u64,
    /// Flight segments.
    pub segments: u64,
    /// Flights.
    pub flights: u64,
    /// Bookings that customers hold at the start.
    pub bookings: u64,
}

/// Why the data could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The runtime did not start.
    #[error("cannot start the loader's runtime")]
    Runtime(#[source] io::Error),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// What was there could not be dropped.
    #[error("cannot drop database `{name}`")]
    Drop {
        /// The database.
        name: String,
        /// What the driver says.
        source: mongodb::error::Error,
    },
    /// Documents could not be inserted.
    #[error("cannot insert into collection `{collection}`")]
    Insert {
        /// The collection.
        collection: &'static str,
        /// What the driver says.
        source: mongodb::error::Error,
    },
    /// An index could not be created.
    #[error("cannot create the index of collection `{collection}`")]
    Index {
        /// The collection.
        collection: &'static str,
        /// What the driver says.
        source: mongodb::error::Error,
    },
}

/// Drops the database, and fills it with the dataset of [`data`]: afterwards it holds the same whatever it held before.
pub fn load_data(options: LoadDataOptions) -> Result<LoadedCounts, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LoadError::Runtime)?;
    runtime.block_on(async {
        let client = database::connect(&options.database, options.database_ca.as_deref(), "load", 1).await?;
        let database = client.database(&options.database_name);
        database.drop().await.map_err(|source| LoadError::Drop { name: options.database_name.clone(), source })?;
        let counts = fill(&database, options.customers).await?;
        client.shutdown().await;
        Ok(counts)
    })
}

async fn fill(database: &Database, customers: u32) -> Result<LoadedCounts, LoadError> {
    let segments = data::segments();
    let mut counts = LoadedCounts {
        airports: insert(database, collections::AIRPORT, data::airports()).await?,
        segments: insert(database, collections::SEGMENT, &segments).await?,
        flights: insert(database, collections::FLIGHT, segments.iter().flat_map(data::flights)).await?,
        ..LoadedCounts::default()
    };
    let mut profiles = Vec::new();
    let mut bookings = Vec::new();
    for (customer, credentials, held) in data::customers(customers) {
        profiles.push(StoredCustomer { customer, credentials });
        bookings.extend(held);
    }
    counts.customers = insert(database, collections::CUSTOMER, profiles).await?;
    counts.bookings = insert(database, collections::BOOKING, bookings).await?;
    index(database, collections::SEGMENT, doc! { "originPort": 1, "destPort": 1 }).await?;
    index(database, collections::FLIGHT, doc! { "flightSegmentId": 1, "scheduledDepartureDate": 1 }).await?;
    index(database, collections::BOOKING, doc! { "customerId": 1 }).await?;
    Ok(counts)
}

#[derive(Serialize)]
struct StoredCustomer {
    #[serde(flatten)]
    customer: Customer,
    #[serde(flatten)]
    credentials: Credentials,
}

async fn insert<T: Serialize + Send + Sync>(
    database: &Database,
    collection: &'static str,
    documents: impl IntoIterator<Item = T>,
) -> Result<u64, LoadError> {
    let target = database.collection::<T>(collection);
    let mut documents = documents.into_iter();
    let mut inserted = 0;
    loop {
        let batch: Vec<T> = documents.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(inserted);
        }
        let result = target.insert_many(batch).await.map_err(|source| LoadError::Insert { collection, source })?;
        inserted += result.inserted_ids.len() as u64;
    }
}

async fn index(database: &Database, collection: &'static str, keys: Document) -> Result<(), LoadError> {
    let index = IndexModel::builder().keys(keys).build();
    let created = database.collection::<Document>(collection).create_index(index).await;
    created.map(|_| ()).map_err(|source| LoadError::Index { collection, source })
}
