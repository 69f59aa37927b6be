//! Projections: which fields of a document an answer holds.

use crate::{
    error::{Code, CommandError, CommandResult},
    path::{check_field_path, split},
    value::{elements, fields, truthy},
};
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

/// The fields to keep, or to leave out.
#[derive(Debug)]
pub(crate) struct Projection<'a> {
    mode: Mode,
    id: bool,
    tree: Tree<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Include,
    Exclude,
}

/// Named fields, each with the named ones below it; none below means all of it.
type Tree<'a> = Vec<(&'a str, Node<'a>)>;

#[derive(Debug)]
struct Node<'a>(Tree<'a>);

impl<'a> Projection<'a> {
    /// Reads a projection; an empty one is none.
    pub(crate) fn parse(document: &'a RawDocument) -> CommandResult<Option<Self>> {
        let (mut mode, mut id, mut tree) = (None, None, Tree::new());
        for (path, value) in fields(document) {
            let path = path.as_str();
            check_field_path(path)?;
            let included = match value {
                RawBsonRef::Boolean(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) => {
                    truthy(value)
                }
                RawBsonRef::Document(expression) => {
                    let operator = fields(expression).next().map_or("", |(name, _)| name.as_str());
                    let message = format!("Unrecognized expression '{operator}' in the projection of '{path}'");
                    return Err(CommandError::new(Code::InvalidPipelineOperator, message));
                }
                _ => {
                    let message = format!("projection of '{path}' is a computed value, which is not supported");
                    return Err(CommandError::new(Code::NotImplemented, message));
                }
            };
            if path == "_id" {
                id = Some(included);
                continue;
            }
            let asked = if included { Mode::Include } else { Mode::Exclude };
            if *mode.get_or_insert(asked) != asked {
                return Err(mixed(path, included));
            }
            insert(&mut tree, path)?;
        }
        // `_id` alone decides the mode when nothing else does: {_id: 1} is an inclusion.
        let Some(mode) = mode.or(id.map(|id| if id { Mode::Include } else { Mode::Exclude })) else {
            return Ok(None);
        };
        Ok(Some(Self { mode, id: id.unwrap_or(true), tree }))
    }

    /// The document with only what is asked, in the order in which it was stored.
    pub(crate) fn apply(&self, document: &RawDocument) -> RawDocumentBuf {
        let below_id = self.tree.iter().any(|(name, _)| *name == "_id");
        let mut result = RawDocumentBuf::new();
        for (name, value) in fields(document) {
            if name.as_str() == "_id" && !below_id {
                if self.id {
                    result.append(name, value);
                }
            } else {
                append_projected(&mut result, name, value, &self.tree, self.mode);
            }
        }
        result
    }
}

fn mixed(path: &str, included: bool) -> CommandError {
    let (code, message) = if included {
        (31253, format!("Cannot do inclusion on field {path} in exclusion projection"))
    } else {
        (31254, format!("Cannot do exclusion on field {path} in inclusion projection"))
    };
    CommandError::new(Code::Location(code), message)
}

fn insert<'a>(tree: &mut Tree<'a>, path: &'a str) -> CommandResult<()> {
    let collision = || CommandError::new(Code::Location(31249), format!("Path collision at {path}"));
    let (name, rest) = split(path);
    match (tree.iter().position(|(other, _)| *other == name), rest) {
        (Some(index), Some(rest)) if !tree[index].1.0.is_empty() => insert(&mut tree[index].1.0, rest),
        (Some(_), _) => Err(collision()),
        (None, rest) => {
            let mut below = Tree::new();
            if let Some(rest) = rest {
                insert(&mut below, rest)?;
            }
            tree.push((name, Node(below)));
            Ok(())
        }
    }
}

fn append_projected(
    result: &mut RawDocumentBuf,
    name: &bson::raw::CStr,
    value: RawBsonRef<'_>,
    tree: &Tree<'_>,
    mode: Mode,
) {
    match (tree.iter().find(|(named, _)| *named == name.as_str()), mode) {
        (None, Mode::Include) => {}
        (None, Mode::Exclude) => result.append(name, value),
        (Some((_, Node(below))), Mode::Include) if below.is_empty() => result.append(name, value),
        (Some((_, Node(below))), Mode::Exclude) if below.is_empty() => {}
        (Some((_, Node(below))), mode) => match value {
            RawBsonRef::Document(inner) => result.append(name, project_document(inner, below, mode)),
            RawBsonRef::Array(inner) => result.append(name, project_array(inner, below, mode)),
            _ if mode == Mode::Exclude => result.append(name, value),
            _ => {}
        },
    }
}

fn project_document(document: &RawDocument, tree: &Tree<'_>, mode: Mode) -> RawDocumentBuf {
    let mut result = RawDocumentBuf::new();
    for (name, value) in fields(document) {
        append_projected(&mut result, name, value, tree, mode);
    }
    result
}

fn project_array(array: &RawArray, tree: &Tree<'_>, mode: Mode) -> RawArrayBuf {
    let mut result = RawArrayBuf::new();
    for element in elements(array) {
        match element {
            RawBsonRef::Document(inner) => result.push(project_document(inner, tree, mode)),
            RawBsonRef::Array(inner) => result.push(project_array(inner, tree, mode)),
            other if mode == Mode::Exclude => result.push(other),
            _ => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn project(projection: RawDocumentBuf) -> RawDocumentBuf {
        let document = rawdoc! {
            "_id": 1, "a": { "b": 2, "c": 3 }, "d": [{ "b": 4, "c": 5 }, 6, [{ "b": 7 }]], "e": 8,
        };
        Projection::parse(&projection).unwrap().unwrap().apply(&document)
    }

    #[test]
    fn inclusion_and_exclusion() {
        assert_eq!(project(rawdoc! { "e": 1 }), rawdoc! { "_id": 1, "e": 8 });
        assert_eq!(project(rawdoc! { "e": true, "_id": 0 }), rawdoc! { "e": 8 });
        assert_eq!(project(rawdoc! { "_id": 1 }), rawdoc! { "_id": 1 });
        assert_eq!(project(rawdoc! { "a.b": 1, "a.c": 1 }), rawdoc! { "_id": 1, "a": { "b": 2, "c": 3 } });
        assert_eq!(project(rawdoc! { "d.b": 1, "e.x": 1 }), rawdoc! { "_id": 1, "d": [{ "b": 4 }, [{ "b": 7 }]] });
        assert_eq!(project(rawdoc! { "d": 0, "a.b": 0 }), rawdoc! { "_id": 1, "a": { "c": 3 }, "e": 8 });
        assert_eq!(project(rawdoc! { "_id": 0, "a": 0, "e": 0, "d.b": 0 }), rawdoc! { "d": [{ "c": 5 }, 6, [{}]] });
        assert!(Projection::parse(&rawdoc! {}).unwrap().is_none());
    }

    #[test]
    fn a_part_of_the_id_can_be_asked_for() {
        let document = rawdoc! { "_id": { "a": 1, "b": 2 }, "c": 3 };
        let project = |projection: RawDocumentBuf| Projection::parse(&projection).unwrap().unwrap().apply(&document);
        assert_eq!(project(rawdoc! { "_id.a": 1 }), rawdoc! { "_id": { "a": 1 } });
        assert_eq!(project(rawdoc! { "_id.a": 0 }), rawdoc! { "_id": { "b": 2 }, "c": 3 });
    }

    #[test]
    fn contradictions_and_expressions_are_refused() {
        let code = |projection: RawDocumentBuf| Projection::parse(&projection).unwrap_err().code;
        assert_eq!(code(rawdoc! { "a": 1, "b": 0 }), Code::Location(31254));
        assert_eq!(code(rawdoc! { "a": 0, "b": 1 }), Code::Location(31253));
        assert_eq!(code(rawdoc! { "a": 1, "a.b": 1 }), Code::Location(31249));
        assert_eq!(code(rawdoc! { "a.b": 1, "a": 1 }), Code::Location(31249));
        assert_eq!(code(rawdoc! { "a": { "$slice": 1 } }), Code::InvalidPipelineOperator);
        assert_eq!(code(rawdoc! { "a": "$b" }), Code::NotImplemented);
    }
}
