use super::*;
use crate::value::tests::any_document;
use bson::{Document, RawDocumentBuf, rawdoc};
use proptest::prelude::*;

fn message(opcode: i32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, [7, 0, opcode], |out| out.extend_from_slice(content));
    out
}

fn msg(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    message(OP_MSG, &[&flags.to_le_bytes()[..], &sections.concat()].concat())
}

fn body(document: &RawDocument) -> Vec<u8> {
    [&[0], document.as_bytes()].concat()
}

fn sequence(name: &str, documents: &[RawDocumentBuf]) -> Vec<u8> {
    let documents: Vec<_> = documents.iter().flat_map(|document| document.as_bytes()).copied().collect();
    let length = (4 + name.len() + 1 + documents.len()) as i32;
    [&[1], &length.to_le_bytes()[..], name.as_bytes(), &[0], &documents].concat()
}

fn query(collection: &str, query: &RawDocument) -> Vec<u8> {
    message(OP_QUERY, &[&[0; 4], collection.as_bytes(), &[0], &[0; 8], query.as_bytes()].concat())
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn is_incomplete(bytes: &[u8], needed: usize) -> bool {
    matches!(decode(bytes), Ok(Decoded::Incomplete { needed: n }) if n == needed)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        command in any_document(),
        documents in proptest::collection::vec(any_document(), 0..3),
        more_to_come: bool,
    ) {
        let (command, documents) = (raw(&command), documents.iter().map(raw).collect::<Vec<_>>());
        let flags = if more_to_come { MORE_TO_COME } else { 0 };
        let mut bytes = msg(flags, &[body(&command), sequence("documents", &documents)]);
        let end = bytes.len();
        for cut in 0..end {
            let needed = if cut < HEADER_BYTES { HEADER_BYTES } else { end };
            prop_assert!(is_incomplete(&bytes[..cut], needed));
        }
        bytes.extend_from_slice(b"next");
        let Ok(Decoded::Complete { message, length }) = decode(&bytes) else { panic!("no message") };
        let Payload::Msg(msg) = message.payload else { panic!("no OP_MSG") };
        prop_assert_eq!((length, message.request_id, msg.more_to_come), (end, 7, more_to_come));
        prop_assert_eq!(msg.body.as_bytes(), command.as_bytes());
        let decoded: Vec<_> = msg.sequences[0].documents.iter().map(|document| document.as_bytes()).collect();
        prop_assert_eq!(decoded, documents.iter().map(|document| document.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_answered_without_panic(content in proptest::collection::vec(any::<u8>(), 0..300), legacy: bool) {
        let _ = decode(&content);
        let _ = decode(&message(if legacy { OP_QUERY } else { OP_MSG }, &content));
    }

    #[test]
    fn a_changed_message_is_answered_without_panic(
        document in any_document(),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = msg(0, &[body(&raw(&document)), sequence("documents", &[raw(&document)])]);
        for (position, byte) in changes {
            let position = position % bytes.len();
            bytes[position] = byte;
        }
        let _ = decode(&bytes);
    }
}

#[test]
fn the_legacy_handshake_is_read() {
    let bytes = query("admin.$cmd", &rawdoc! { "isMaster": 1 });
    let Ok(Decoded::Complete { message, .. }) = decode(&bytes) else { panic!("no message") };
    assert!(matches!(message.payload, Payload::Query { collection: "admin.$cmd", .. }));
}

#[test]
fn the_length_is_judged_before_the_content_arrives() {
    for length in [-1, 0, 15, MAX_MESSAGE_BYTES as i32 + 1] {
        let mut header = message(OP_MSG, &[]);
        header[..4].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(decode(&header), Err(WireError::Length(l)) if l == length));
    }
}

#[test]
fn compressed_and_unknown_operations_are_refused() {
    for opcode in [2001, 2012] {
        assert!(matches!(decode(&message(opcode, &[])), Err(WireError::Opcode(o)) if o == opcode));
    }
}

#[test]
fn a_checksum_is_reported_and_not_taken_for_a_section() {
    let bytes = msg(CHECKSUM_PRESENT, &[body(&rawdoc! { "ping": 1 }), vec![1, 2, 3, 4]]);
    let Ok(Decoded::Complete { message, .. }) = decode(&bytes) else { panic!("no message") };
    assert!(matches!(message.payload, Payload::Msg(Msg { has_checksum: true, .. })));
}

#[test]
fn broken_sections_are_refused() {
    let ping = body(&rawdoc! { "ping": 1 });
    assert!(matches!(decode(&msg(0, &[])), Err(WireError::Bodies(0))));
    assert!(matches!(decode(&msg(0, &[ping.clone(), ping.clone()])), Err(WireError::Bodies(2))));
    assert!(matches!(decode(&msg(1 << 5, std::slice::from_ref(&ping))), Err(WireError::Flags(0x20))));
    assert!(matches!(decode(&msg(0, &[ping.clone(), vec![2]])), Err(WireError::SectionKind(2))));
    let twice = [ping.clone(), sequence("d", &[]), sequence("d", &[])];
    assert!(matches!(decode(&msg(0, &twice)), Err(WireError::DuplicateSequence(_))));
    let cut = sequence("documents", &[rawdoc! { "a": 1 }]);
    assert!(matches!(decode(&msg(0, &[ping, cut[..cut.len() - 1].to_vec()])), Err(WireError::Truncated(_))));
}
