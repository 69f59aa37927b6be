"""Usage: pymongo_suite.py PORT CA_FILE. Drives a docstore on localhost through pymongo; any failure raises."""

import sys

import bson
import pymongo
from pymongo import errors


def connect(port, ca_file, **options):
    return pymongo.MongoClient(
        "localhost", port, tls=True, tlsCAFile=ca_file, serverSelectionTimeoutMS=5000, **options
    )


def fails(code, call):
    try:
        call()
    except errors.OperationFailure as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"no error {code}")


def reads_and_writes(db):
    c = db.people
    assert c.insert_one({"name": "Ada", "born": 1815, "tags": ["a", "b"]}).acknowledged
    c.insert_many({"_id": n, "n": n, "d": {"half": n / 2}} for n in range(500))
    assert c.find_one({"_id": 7})["n"] == 7
    assert c.find_one({"_id": bson.Int64(7)}, {"n": 1}) == {"_id": 7, "n": 7}
    assert c.find_one({"tags": "b"}, {"_id": 0, "name": 1}) == {"name": "Ada"}
    assert len(list(c.find({"n": {"$gte": 100}}, batch_size=50))) == 400
    page = c.find({"n": {"$exists": True}}).sort([("d.half", -1)]).skip(1).limit(2)
    assert [document["_id"] for document in page] == [498, 497]
    assert c.find_one(sort=[("n", 1)])["name"] == "Ada"
    assert c.count_documents({"$or": [{"n": 1}, {"n": {"$in": [2, 3]}}]}) == 3
    assert c.estimated_document_count() == 501
    assert sorted(c.distinct("n", {"n": {"$lt": 3}})) == [0, 1, 2]
    assert c.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count == 1
    assert c.update_many({"n": {"$gt": 490}}, {"$set": {"d.big": True}}).modified_count == 9
    result = c.update_one({"_id": "new"}, {"$set": {"a": 1}}, upsert=True)
    assert result.upserted_id == "new" and result.matched_count == 0
    assert c.replace_one({"_id": "new"}, {"b": 2}).modified_count == 1
    assert c.find_one({"_id": "new"}) == {"_id": "new", "b": 2}
    assert c.find_one_and_update({"_id": 1}, {"$set": {"x": 1}}, return_document=True)["x"] == 1
    assert c.find_one_and_delete({"_id": "new"}) == {"_id": "new", "b": 2}
    assert c.delete_one({"_id": 1}).deleted_count == 1
    assert c.delete_many({}).deleted_count == 500


def bulk_writes(db):
    c = db.bulk
    result = c.bulk_write(
        [
            pymongo.InsertOne({"_id": 1}),
            pymongo.UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            pymongo.ReplaceOne({"_id": 2}, {"b": 1}, upsert=True),
            pymongo.DeleteOne({"_id": 1}),
        ]
    )
    assert (result.inserted_count, result.modified_count, result.upserted_count, result.deleted_count) == (1, 1, 1, 1)
    try:
        c.insert_many([{"_id": 2}, {"_id": 3}, {"_id": 3}], ordered=False)
        raise AssertionError("no error")
    except errors.BulkWriteError as error:
        assert [one["code"] for one in error.details["writeErrors"]] == [11000, 11000]
        assert error.details["writeErrors"][0]["keyValue"] == {"_id": 2}
    unacknowledged = c.with_options(write_concern=pymongo.WriteConcern(w=0))
    unacknowledged.insert_one({"_id": 9})
    while not c.find_one({"_id": 9}):
        pass


def indexes(db):
    c = db.indexed
    assert c.create_index([("a", 1), ("b", -1)]) == "a_1_b_-1"
    assert c.create_index("u", unique=True) == "u_1"
    assert set(c.index_information()) == {"_id_", "a_1_b_-1", "u_1"}
    assert c.index_information()["u_1"]["unique"]
    c.insert_one({"a": 1, "b": 2, "u": 3})
    try:
        c.insert_one({"u": 3})
        raise AssertionError("no error")
    except errors.DuplicateKeyError as error:
        assert error.details["keyPattern"] == {"u": 1}
    assert c.find_one({"a": 1, "b": 2})["u"] == 3
    c.drop_index("u_1")
    c.drop_index([("a", 1), ("b", -1)])
    assert set(c.index_information()) == {"_id_"}
    fails(26, lambda: db.command("listIndexes", "nothing"))


def catalog(client, db):
    db.create_collection("made")
    assert "made" in db.list_collection_names()
    assert db.list_collections(filter={"name": "made"}).next()["type"] == "collection"
    assert db.name in client.list_database_names()
    db.made.drop()
    assert "made" not in db.list_collection_names()


def pipelines(db):
    c = db.numbers
    c.insert_many({"_id": n, "even": n % 2 == 0, "n": n} for n in range(10))
    groups = c.aggregate(
        [
            {"$match": {"n": {"$gt": 0}}},
            {"$group": {"_id": "$even", "sum": {"$sum": "$n"}, "max": {"$max": "$n"}}},
            {"$sort": {"_id": 1}},
        ]
    )
    assert list(groups) == [{"_id": False, "sum": 25, "max": 9}, {"_id": True, "sum": 20, "max": 8}]
    assert list(c.aggregate([{"$count": "total"}])) == [{"total": 10}]
    fails(40324, lambda: c.aggregate([{"$lookup": {}}]))


def sessions(client, db):
    with client.start_session() as session:
        db.s.insert_one({"_id": 1}, session=session)
        assert db.s.find_one({"_id": 1}, session=session)
        session.start_transaction()
        fails(20, lambda: db.s.insert_one({"_id": 2}, session=session))
        session.abort_transaction()
    assert db.s.count_documents({}) == 1


def refusals(client, db):
    fails(59, lambda: db.command("nonsense"))
    fails(2, lambda: db.c.find_one({"a": {"$foo": 1}}))
    fails(9, lambda: db.c.update_one({}, {"$rename": {"a": "b"}}))
    fails(40415, lambda: db.command("find", "c", hint="a_1"))
    assert client.server_info()["version"] == "7.0.0"
    assert client.admin.command("hello")["maxWireVersion"] == 21


def main():
    port, ca_file = int(sys.argv[1]), sys.argv[2]
    with connect(port, ca_file) as client:
        db = client.suite
        reads_and_writes(db)
        bulk_writes(db)
        indexes(db)
        catalog(client, db)
        pipelines(db)
        sessions(client, db)
        refusals(client, db)
        client.drop_database("suite")
        assert client.list_database_names() == []
    try:
        with pymongo.MongoClient("localhost", port, tls=True, serverSelectionTimeoutMS=1000) as stranger:
            stranger.admin.command("ping")
        raise AssertionError("a certificate of an unknown CA was accepted")
    except errors.ServerSelectionTimeoutError:
        pass


main()
