//! Every command through MongoDB's official Rust driver, over TLS, certificate and name verified.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::TryStreamExt;
use mongodb::{
    Client, Collection, Database, IndexModel,
    error::{ErrorKind, WriteFailure},
    options::{ClientOptions, IndexOptions, InsertManyOptions, ReturnDocument, ServerAddress, Tls, TlsOptions},
};
use support::Server;

fn options(server: &Server, host: &str) -> ClientOptions {
    let tls = TlsOptions::builder().ca_file_path(server.ca_file()).build();
    let address = ServerAddress::Tcp { host: host.to_owned(), port: Some(server.address.port()) };
    ClientOptions::builder()
        .hosts(vec![address])
        .tls(Tls::Enabled(tls))
        .server_selection_timeout(std::time::Duration::from_secs(5))
        .build()
}

async fn connect(server: &Server) -> Database {
    Client::with_options(options(server, "localhost")).unwrap().database("test")
}

async fn all(collection: &Collection<Document>, filter: Document) -> Vec<Document> {
    collection.find(filter).await.unwrap().try_collect().await.unwrap()
}

fn command_code(error: mongodb::error::Error) -> (i32, String) {
    match *error.kind {
        ErrorKind::Command(error) => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn documents_are_written_read_and_deleted() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    let people = db.collection::<Document>("people");
    let id = people.insert_one(doc! { "name": "Ada", "address": { "city": "London" } }).await.unwrap().inserted_id;
    assert!(id.as_object_id().is_some());
    let many: Vec<_> = (0..250).map(|n| doc! { "_id": n, "n": n, "tags": ["a", n % 3] }).collect();
    assert_eq!(people.insert_many(many).await.unwrap().inserted_ids.len(), 250);

    assert_eq!(people.find_one(doc! { "address.city": "London" }).await.unwrap().unwrap().get("_id"), Some(&id));
    assert_eq!(people.find_one(doc! { "_id": 7.0 }).await.unwrap().unwrap().get_i32("n").ok(), Some(7));
    // More than a first batch: getMore.
    assert_eq!(all(&people, doc! { "n": { "$gte": 0 } }).await.len(), 250);
    let page: Vec<_> = people
        .find(doc! { "tags": 1 })
        .sort(doc! { "n": -1 })
        .skip(2)
        .limit(3)
        .batch_size(2)
        .projection(doc! { "_id": 0, "n": 1 })
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(page, [doc! { "n": 241 }, doc! { "n": 238 }, doc! { "n": 235 }]);

    assert_eq!(people.count_documents(doc! { "tags": { "$in": [1, 2] } }).await.unwrap(), 166);
    assert_eq!(people.estimated_document_count().await.unwrap(), 251);
    let mut tags = people.distinct("tags", doc! { "n": { "$lt": 9 } }).await.unwrap();
    tags.sort_by_key(ToString::to_string);
    assert_eq!(tags, [Bson::from("a"), Bson::from(0), Bson::from(1), Bson::from(2)]);

    assert_eq!(people.delete_one(doc! { "tags": "a" }).await.unwrap().deleted_count, 1);
    assert_eq!(people.delete_many(doc! { "tags": "a" }).await.unwrap().deleted_count, 249);
    assert_eq!(people.count_documents(doc! {}).await.unwrap(), 1);
    people.drop().await.unwrap();
    assert!(all(&people, doc! {}).await.is_empty());
    server.stop();
}

#[tokio::test]
async fn updates_replace_modify_and_insert() {
    let server = Server::with_tls();
    let c = connect(&server).await.collection::<Document>("c");
    c.insert_many((0..5).map(|n| doc! { "_id": n, "n": n, "list": [] })).await.unwrap();
    let result = c.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 10 }, "$push": { "list": "x" } }).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count), (1, 1));
    let result = c.update_many(doc! { "n": { "$lt": 4 } }, doc! { "$set": { "small": true } }).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count), (3, 3));
    let result = c.update_many(doc! { "small": true }, doc! { "$set": { "small": true } }).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count), (3, 0));
    let result = c.replace_one(doc! { "_id": 4 }, doc! { "other": 1 }).await.unwrap();
    assert_eq!(result.modified_count, 1);
    assert_eq!(c.find_one(doc! { "_id": 4 }).await.unwrap(), Some(doc! { "_id": 4, "other": 1 }));
    let upsert = doc! { "$set": { "a": 1 }, "$setOnInsert": { "new": true }, "$unset": { "b": "" } };
    let result = c.update_one(doc! { "_id": "u" }, upsert.clone()).upsert(true).await.unwrap();
    assert_eq!((result.matched_count, result.upserted_id), (0, Some(Bson::from("u"))));
    assert_eq!(c.find_one(doc! { "_id": "u" }).await.unwrap(), Some(doc! { "_id": "u", "a": 1, "new": true }));
    let result = c.update_one(doc! { "_id": "u" }, upsert).upsert(true).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (1, 0, None));
    assert_eq!(c.find_one(doc! { "_id": 1 }).await.unwrap(), Some(doc! { "_id": 1, "n": 11, "list": ["x"] }));

    let error = c.update_one(doc! { "_id": 1 }, doc! { "$set": { "_id": 2 } }).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(e)) if e.code == 66), "{error:?}");
    server.stop();
}

#[tokio::test]
async fn find_and_modify_answers_before_or_after() {
    let server = Server::with_tls();
    let c = connect(&server).await.collection::<Document>("c");
    c.insert_many([doc! { "_id": 1, "n": 5 }, doc! { "_id": 2, "n": 3 }]).await.unwrap();
    let increment = doc! { "$inc": { "n": 1 } };
    let before = c.find_one_and_update(doc! {}, increment.clone()).sort(doc! { "n": 1 }).await.unwrap();
    assert_eq!(before, Some(doc! { "_id": 2, "n": 3 }));
    let after = c
        .find_one_and_update(doc! { "_id": 2 }, increment.clone())
        .return_document(ReturnDocument::After)
        .projection(doc! { "n": 1, "_id": 0 })
        .await
        .unwrap();
    assert_eq!(after, Some(doc! { "n": 5 }));
    let created =
        c.find_one_and_update(doc! { "_id": 9 }, increment).upsert(true).return_document(ReturnDocument::After);
    assert_eq!(created.await.unwrap(), Some(doc! { "_id": 9, "n": 1 }));
    let replaced = c.find_one_and_replace(doc! { "_id": 9 }, doc! { "x": 1 }).await.unwrap();
    assert_eq!(replaced, Some(doc! { "_id": 9, "n": 1 }));
    assert_eq!(c.find_one_and_delete(doc! { "_id": 9 }).await.unwrap(), Some(doc! { "_id": 9, "x": 1 }));
    assert_eq!(c.find_one_and_delete(doc! { "_id": 9 }).await.unwrap(), None);
    server.stop();
}

#[tokio::test]
async fn duplicate_keys_are_reported_by_statement() {
    let server = Server::with_tls();
    let c = connect(&server).await.collection::<Document>("c");
    c.insert_one(doc! { "_id": 1 }).await.unwrap();
    let error = c.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    let ErrorKind::Write(WriteFailure::WriteError(error)) = *error.kind else { panic!("{error:?}") };
    assert_eq!(error.code, 11000);
    assert!(error.message.starts_with("E11000 duplicate key error collection: test.c index: _id_ dup key:"));

    for (ordered, stored) in [(true, 2), (false, 3)] {
        c.delete_many(doc! {}).await.unwrap();
        let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }, doc! { "_id": 2 }, doc! { "_id": 3 }];
        let options = InsertManyOptions::builder().ordered(ordered).build();
        let error = c.insert_many(documents).with_options(options).await.unwrap_err();
        let ErrorKind::InsertMany(error) = *error.kind else { panic!("{error:?}") };
        assert_eq!(error.write_errors.unwrap()[0].index, 2);
        assert_eq!(c.count_documents(doc! {}).await.unwrap(), stored);
    }
    server.stop();
}

#[tokio::test]
async fn indexes_are_made_listed_used_and_dropped() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    let c = db.collection::<Document>("flights");
    c.insert_many((0..100).map(|n| doc! { "_id": n, "from": n % 10, "to": n / 10, "code": n })).await.unwrap();
    let pair = IndexModel::builder().keys(doc! { "from": 1, "to": 1 }).build();
    let unique = IndexModel::builder().keys(doc! { "code": 1 });
    let unique = unique.options(IndexOptions::builder().unique(true).build()).build();
    let created = c.create_indexes([pair.clone(), unique]).await.unwrap();
    assert_eq!(created.index_names, ["from_1_to_1", "code_1"]);
    c.create_index(pair).await.unwrap();
    assert_eq!(c.list_index_names().await.unwrap(), ["_id_", "from_1_to_1", "code_1"]);
    let found: Vec<_> = all(&c, doc! { "from": 3, "to": 4 }).await;
    assert_eq!(found, [doc! { "_id": 43, "from": 3, "to": 4, "code": 43 }]);
    assert_eq!(all(&c, doc! { "from": 3 }).await.len(), 10);
    assert!(c.insert_one(doc! { "code": 5 }).await.is_err());
    c.drop_index("code_1").await.unwrap();
    c.insert_one(doc! { "code": 5 }).await.unwrap();
    c.drop_indexes().await.unwrap();
    assert_eq!(c.list_index_names().await.unwrap(), ["_id_"]);
    assert_eq!(command_code(c.drop_index("nothing").await.unwrap_err()).0, 27);
    server.stop();
}

#[tokio::test]
async fn collections_and_databases_are_listed_and_dropped() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    db.create_collection("made").await.unwrap();
    db.collection::<Document>("implied").insert_one(doc! {}).await.unwrap();
    assert_eq!(db.list_collection_names().await.unwrap(), ["implied", "made"]);
    let listed: Vec<_> =
        db.list_collections().filter(doc! { "name": "made" }).await.unwrap().try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(command_code(db.create_collection("made").await.unwrap_err()).0, 48);
    assert_eq!(db.client().list_database_names().await.unwrap(), ["test"]);
    assert!(db.client().list_databases().await.unwrap()[0].size_on_disk > 0);
    db.drop().await.unwrap();
    assert_eq!(db.client().list_database_names().await.unwrap(), [""; 0]);
    server.stop();
}

#[tokio::test]
async fn pipelines_run() {
    let server = Server::with_tls();
    let c = connect(&server).await.collection::<Document>("c");
    c.insert_many((0..300).map(|n| doc! { "_id": n, "even": n % 2 == 0, "n": n })).await.unwrap();
    let pipeline = [
        doc! { "$match": { "n": { "$lt": 10 } } },
        doc! { "$group": { "_id": "$even", "sum": { "$sum": "$n" }, "avg": { "$avg": "$n" } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let results: Vec<_> = c.aggregate(pipeline).await.unwrap().try_collect().await.unwrap();
    let expected = [doc! { "_id": false, "sum": 25, "avg": 5.0 }, doc! { "_id": true, "sum": 20, "avg": 4.0 }];
    assert_eq!(results, expected);
    let everything: Vec<_> = c.aggregate([doc! { "$project": { "n": 1 } }]).await.unwrap().try_collect().await.unwrap();
    assert_eq!(everything.len(), 300);
    let error = c.aggregate([doc! { "$lookup": {} }]).await.unwrap_err();
    assert_eq!(command_code(error), (40324, "Unrecognized pipeline stage name: '$lookup'".to_owned()));
    server.stop();
}

#[tokio::test]
async fn sessions_are_accepted_and_transactions_are_not() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    let c = db.collection::<Document>("c");
    let mut session = db.client().start_session().await.unwrap();
    c.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    assert_eq!(c.count_documents(doc! {}).session(&mut session).await.unwrap(), 1);
    let in_transaction = db.run_command(doc! {
        "insert": "c", "documents": [{ "_id": 2 }], "txnNumber": 1_i64, "autocommit": false, "startTransaction": true,
    });
    // The code alone: the driver puts a text of its own in place of the server's.
    assert_eq!(command_code(in_transaction.await.unwrap_err()).0, 20);
    assert_eq!(command_code(db.run_command(doc! { "commitTransaction": 1 }).await.unwrap_err()).0, 20);
    assert_eq!(c.count_documents(doc! {}).await.unwrap(), 1);
    let started = db.run_command(doc! { "startSession": 1 }).await.unwrap();
    let session = started.get_document("id").unwrap();
    db.run_command(doc! { "refreshSessions": [session] }).await.unwrap();
    db.run_command(doc! { "endSessions": [session] }).await.unwrap();
    server.stop();
}

#[tokio::test]
async fn what_is_not_supported_is_mongodbs_error() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    db.collection::<Document>("c").insert_one(doc! { "_id": 1 }).await.unwrap();
    let refused = [
        (doc! { "mapReduce": "c" }, 59, "no such command: 'mapReduce'"),
        (doc! { "find": "c", "nonsense": 1 }, 40415, "BSON field 'find.nonsense' is an unknown field."),
        (doc! { "find": "c", "filter": { "a": { "$foo": 1 } } }, 2, "unknown operator: $foo"),
        (
            doc! { "find": "c", "filter": 1 },
            14,
            "BSON field 'find.filter' is the wrong type 'int', expected type 'object'",
        ),
        (doc! { "find": "c", "limit": -1 }, 51024, "BSON field 'find.limit' value must be >= 0, actual value '-1'"),
        (doc! { "find": "a$b" }, 73, "Invalid namespace specified 'test.a$b'"),
        (doc! { "find": 1 }, 73, "collection name has invalid type int; it has to be a string"),
        (doc! { "getMore": 99_i64, "collection": "c" }, 43, "cursor id 99 not found"),
        (doc! { "insert": "c" }, 40414, "BSON field 'insert.documents' is missing but a required field"),
        (doc! { "insert": "c", "documents": [] }, 16, "Write batch sizes must be between 1 and 100000."),
        (
            doc! { "update": "c", "updates": [{ "q": {}, "u": {}, "hint": 1 }] },
            40415,
            "BSON field 'update.updates.hint'",
        ),
        (doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 2 }] }, 9, "The limit field in delete objects"),
        (doc! { "aggregate": "c", "pipeline": [] }, 9, "The 'cursor' option is required"),
        (doc! { "listIndexes": "nothing" }, 26, "ns does not exist: test.nothing"),
        (doc! { "ping": 1, "readConcern": { "level": "snapshot" } }, 123, "node needs to be a replica set member"),
        (doc! { "ping": 1, "writeConcern": { "w": 2 } }, 2, "cannot use 'w' > 1 when a host is not replicated"),
        (doc! { "ping": 1, "apiVersion": "2" }, 322, "API version must be \"1\""),
        (doc! { "findAndModify": "c" }, 9, "Either an update or remove=true must be specified"),
        (
            doc! { "find": "c", "filter": { "a": "1".parse::<bson::Decimal128>().unwrap() } },
            238,
            "BSON type Decimal128 is not supported",
        ),
        (
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "expireAfterSeconds": 1 }] },
            197,
            "The field 'expireAfterSeconds' is not valid for an index specification",
        ),
    ];
    for (command, code, message) in refused {
        let (found, text) = command_code(db.run_command(command.clone()).await.unwrap_err());
        assert_eq!(found, code, "{command} {text}");
        assert!(text.starts_with(message), "{command} {text}");
    }
    let accepted = doc! { "find": "c", "maxTimeMS": 100, "comment": "x", "readConcern": { "level": "majority" } };
    db.run_command(accepted).await.unwrap();
    server.stop();
}

#[tokio::test]
async fn a_mistake_in_one_statement_is_its_own_error() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    db.collection::<Document>("c").insert_one(doc! { "_id": 1 }).await.unwrap();
    let good = doc! { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } };
    for (bad, code) in [
        (doc! { "q": {}, "u": { "$foo": {} } }, 9),
        (doc! { "q": { "$foo": 1 }, "u": {} }, 2),
        (doc! { "q": {}, "u": { "a": 1 }, "multi": true }, 9),
        (doc! { "q": {}, "u": [] }, 238),
    ] {
        let updates = [good.clone(), bad, good.clone()];
        let reply =
            db.run_command(doc! { "update": "c", "updates": updates.to_vec(), "ordered": false }).await.unwrap();
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
        assert_eq!((error.get_i32("index").ok(), error.get_i32("code").ok()), (Some(1), Some(code)));
        assert_eq!(reply.get_i32("nModified").ok(), Some(2));
    }
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "a": { "$foo": 1 } }, "limit": 1 }] };
    assert_eq!(db.run_command(delete).await.unwrap().get_array("writeErrors").unwrap().len(), 1);
    server.stop();
}

#[tokio::test]
async fn the_server_says_who_it_is() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    let hello = db.run_command(doc! { "hello": 1 }).await.unwrap();
    assert_eq!(hello.get_i32("maxWireVersion").ok(), Some(21));
    assert_eq!(hello.get_bool("isWritablePrimary").ok(), Some(true));
    assert_eq!(hello.get_i32("maxBsonObjectSize").ok(), Some(16 * 1024 * 1024));
    let build = db.run_command(doc! { "buildInfo": 1 }).await.unwrap();
    assert_eq!(build.get_str("version").ok(), Some("7.0.0"));
    server.stop();
}

#[tokio::test]
async fn cursors_can_be_killed_and_large_results_come_in_batches() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    let c = db.collection::<Document>("c");
    c.insert_many((0..10).map(|n| doc! { "_id": n, "text": "x".repeat(4 << 20) })).await.unwrap();
    assert_eq!(all(&c, doc! {}).await.len(), 10);
    let found = db.run_command(doc! { "find": "c", "batchSize": 1 }).await.unwrap();
    let id = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    let killed = db.run_command(doc! { "killCursors": "c", "cursors": [id, 5_i64] }).await.unwrap();
    assert_eq!(killed.get_array("cursorsKilled").unwrap(), &[Bson::Int64(id)]);
    assert_eq!(killed.get_array("cursorsNotFound").unwrap(), &[Bson::Int64(5)]);
    assert_eq!(command_code(db.run_command(doc! { "getMore": id, "collection": "c" }).await.unwrap_err()).0, 43);
    server.stop();
}

#[tokio::test]
async fn the_certificate_is_verified_and_the_path_recorded() {
    let server = Server::with_tls();
    let db = connect(&server).await;
    db.collection::<Document>("c").insert_one(doc! { "_id": ObjectId::new() }).await.unwrap();
    db.run_command(doc! { "ping": 1 }).await.unwrap();
    let snapshot = server.snapshot();
    let [path] = &snapshot.connections[..] else { panic!("{snapshot:?}") };
    assert_eq!((path.sni.as_deref(), path.tls.as_deref()), (Some("localhost"), Some("TLSv1.3")));
    assert!(path.peer.is_loopback());
    assert_eq!(path.operations, 1);
    assert!(path.open >= 2 && path.housekeeping >= 3 && path.bytes_in > 300 && path.bytes_out > 300);

    let wrong_name = Client::with_options(options(&server, "127.0.0.1")).unwrap();
    assert!(wrong_name.list_database_names().await.is_err());
    assert!(server.snapshot().failed_handshakes > 0);
    server.stop();
}

#[test]
fn the_admin_port_answers() {
    let server = Server::plain();
    assert_eq!(server.admin_request("GET", "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.admin_request("GET", "/nothing").0, 404);
    assert_eq!(server.admin_request("POST", "/connections").0, 405);
    assert!(server.snapshot().connections.is_empty());
    server.stop();
}
