//! Serde stops at the first field that is not what it should be; here are the others.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fields::FieldErrors;

/// More are not worth the room that they take in the answer.
const MOST_NAMED: usize = 20;

/// Names the faults that show once the fields that were named are taken out of the body.
pub(super) fn add_others<T: DeserializeOwned>(text: &str, errors: &mut FieldErrors) {
    let Ok(mut body) = serde_json::from_str::<Value>(text) else {
        return;
    };
    while errors.faults().len() < MOST_NAMED {
        let (Some(fields), Some(fault)) = (body.as_object_mut(), errors.faults().last()) else {
            return;
        };
        let named = outermost(&fault.field);
        // A field that is not there is one that is missing: there is no way past it.
        if fields.remove(named).is_none() {
            return;
        }
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&body) else {
            return;
        };
        let mut next = FieldErrors::new();
        next.add_serde(error.path(), &error.inner().to_string());
        let is_known = |field: &str| {
            let named = errors.faults().iter();
            named
                .map(|fault| outermost(&fault.field))
                .any(|name| name == outermost(field))
        };
        // What was taken out is missed now.
        if next.faults().iter().any(|fault| is_known(&fault.field)) {
            return;
        }
        for fault in next.into_faults() {
            errors.add(fault.field, fault.message);
        }
    }
}

/// The field of the body in which the field of this path is.
fn outermost(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}
