//! Replies: what a command answers, written as bytes.

use crate::{cursor::Batch, error::CommandError, record::Record, value::MAX_STORED_DEPTH};
use bson::{RawDocumentBuf, raw::cstr, rawdoc, spec::ElementType};

/// What a command that succeeded answers, without its `ok`.
#[derive(Debug)]
pub(crate) enum Reply {
    /// These fields.
    Fields(RawDocumentBuf),
    /// A cursor with its first or next batch.
    Cursor {
        /// `database.collection` that the batch comes from.
        namespace: String,
        /// `firstBatch` or `nextBatch`.
        batch_name: &'static str,
        /// The documents and the cursor's id.
        batch: Batch,
    },
}

impl Reply {
    /// A reply that says no more than that it worked.
    pub(crate) fn ok() -> Self {
        Self::Fields(RawDocumentBuf::new())
    }

    /// Appends the reply's document to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Fields(mut document) => {
                document.append(cstr!("ok"), 1.0);
                out.extend_from_slice(document.as_bytes());
            }
            Self::Cursor { namespace, batch_name, batch } => write_cursor(out, &namespace, batch_name, &batch),
        }
    }
}

/// Appends the document of a command that failed to `out`.
pub(crate) fn write_error(error: &CommandError, out: &mut Vec<u8>) {
    let document = rawdoc! {
        "ok": 0.0,
        "errmsg": error.message.as_str(),
        "code": error.code.number(),
        "codeName": error.code.name().as_ref(),
    };
    out.extend_from_slice(document.as_bytes());
}

/// Writes the stored documents straight into the reply: the one copy between the store and TLS.
fn write_cursor(out: &mut Vec<u8>, namespace: &str, batch_name: &str, batch: &Batch) {
    const { assert!(MAX_STORED_DEPTH + 3 <= crate::value::MAX_MESSAGE_DEPTH, "a reply adds three levels") };
    write_document(out, |out| {
        write_key(out, ElementType::EmbeddedDocument, "cursor");
        write_document(out, |out| {
            write_key(out, ElementType::Array, batch_name);
            write_document(out, |out| write_elements(out, &batch.documents));
            write_key(out, ElementType::Int64, "id");
            out.extend_from_slice(&batch.cursor.to_le_bytes());
            write_key(out, ElementType::String, "ns");
            out.extend_from_slice(&(namespace.len() as u32 + 1).to_le_bytes());
            out.extend_from_slice(namespace.as_bytes());
            out.push(0);
        });
        write_key(out, ElementType::Double, "ok");
        out.extend_from_slice(&1.0_f64.to_le_bytes());
    });
}

fn write_document(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out);
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn write_key(out: &mut Vec<u8>, kind: ElementType, name: &str) {
    out.push(kind as u8);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

fn write_elements(out: &mut Vec<u8>, documents: &[Record]) {
    out.reserve(documents.iter().map(|document| document.as_bytes().len() + 16).sum());
    for (index, document) in documents.iter().enumerate() {
        write_key(out, ElementType::EmbeddedDocument, &index.to_string());
        out.extend_from_slice(document.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_cursor_is_written_as_the_encoder_would() {
        let documents = vec![Arc::new(rawdoc! { "_id": 1 }), Arc::new(rawdoc! { "_id": 2, "a": "x" })];
        let mut out = Vec::new();
        let batch = Batch { documents, cursor: 7 };
        Reply::Cursor { namespace: "db.c".to_owned(), batch_name: "firstBatch", batch }.write(&mut out);
        let expected = rawdoc! {
            "cursor": { "firstBatch": [{ "_id": 1 }, { "_id": 2, "a": "x" }], "id": 7_i64, "ns": "db.c" },
            "ok": 1.0,
        };
        assert_eq!(out, expected.as_bytes());
    }
}
