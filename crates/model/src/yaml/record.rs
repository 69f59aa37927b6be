//! Types that are read field by field.

/// Declares a type and how it is read: each field is `required` or `optional`, and named as in YAML. Fields listed as
/// `unsupported` are Istio's and are refused as such; any other field is unknown.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($need:ident $field:ident: $type:ty = $key:literal,)*
        }
        $(unsupported $unsupported:expr)?
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: record!(@type $need $type),)*
        }

        impl $crate::yaml::Decode for $name {
            fn decode(
                node: &$crate::yaml::Node,
                problems: &mut $crate::diagnostics::Diagnostics,
            ) -> Option<Self> {
                let mut fields = $crate::yaml::Fields::of(node, problems)?;
                $(let $field = fields.$need($key);)*
                fields.finish(record!(@unsupported $($unsupported)?));
                Some(Self { $($field: $field?,)* })
            }
        }
    };
    (@type required $type:ty) => { $type };
    (@type optional $type:ty) => { Option<$type> };
    (@unsupported) => { &[] };
    (@unsupported $unsupported:expr) => { &$unsupported };
}

pub(crate) use record;
