//! Flattened structs as one object: easier to read than `allOf`, and to check against.

use std::collections::BTreeMap;

use utoipa::openapi::{
    RefOr, Schema,
    schema::{AllOf, Object},
};

type Components = BTreeMap<String, RefOr<Schema>>;

/// Replaces each component that is all of several objects by one object.
pub(super) fn merge_all(components: &Components) -> Components {
    let merged = components.iter().map(|(name, schema)| {
        let object = match schema {
            RefOr::T(Schema::AllOf(all_of)) => merge(all_of, components),
            RefOr::T(_) | RefOr::Ref(_) => None,
        };
        let schema = object.map_or_else(|| schema.clone(), |object| Schema::from(object).into());
        (name.clone(), schema)
    });
    merged.collect()
}

/// `None` when a part is no object, and so cannot be merged.
fn merge(all_of: &AllOf, components: &Components) -> Option<Object> {
    let mut merged = Object::new();
    merged.description.clone_from(&all_of.description);
    for part in &all_of.items {
        let part = as_object(part, components)?;
        merged.properties.extend(part.properties);
        merged.required.extend(part.required);
    }
    Some(merged)
}

fn as_object(part: &RefOr<Schema>, components: &Components) -> Option<Object> {
    let schema = match part {
        RefOr::T(schema) => schema,
        RefOr::Ref(reference) => {
            let (_, name) = reference.ref_location.rsplit_once('/')?;
            match components.get(name)? {
                RefOr::T(schema) => schema,
                RefOr::Ref(_) => return None,
            }
        }
    };
    if let Schema::AllOf(all_of) = schema {
        return merge(all_of, components);
    }
    if let Schema::Object(object) = schema {
        return Some(object.clone());
    }
    None
}
