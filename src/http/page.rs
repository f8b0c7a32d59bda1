//! Lists in pages: a `limit` and an opaque `cursor`.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error},
};

use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use super::problem::Problem;

/// How many items a page may have: 1 to 200, 50 unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit(u16);

impl PageLimit {
    const MAX: u16 = 200;

    pub fn get(self) -> usize {
        self.0.into()
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

impl PartialSchema for PageLimit {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(Self::MAX))
            .default(Some(Self::default().0.into()));
        Schema::Object(schema.build()).into()
    }
}

impl ToSchema for PageLimit {}

impl<'de> Deserialize<'de> for PageLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A parameter of a query is always text.
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            Ok(limit) if (1..=Self::MAX).contains(&limit) => Ok(Self(limit)),
            Ok(_) | Err(_) => Err(D::Error::custom(format_args!(
                "a limit is a number from 1 to {}",
                Self::MAX
            ))),
        }
    }
}

/// Where the next page starts: the caller's to send back, not to read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Hides the sort key of a page's last item.
    pub fn encode(key: &impl Serialize) -> Result<Self, Problem> {
        let json = serde_json::to_vec(key).map_err(Problem::internal)?;
        Ok(Self(hex::encode(json)))
    }

    /// The sort key after which the page starts; 422 on one that we did not make.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Problem> {
        hex::decode(&self.0)
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(|| Problem::invalid_field("cursor", "this is not a cursor of this list"))
    }
}

/// Which page of a list is wanted.
///
/// A list's query has the two as fields of its own, `limit: Option<PageLimit>` and
/// `cursor: Option<Cursor>`: serde cannot flatten a struct and refuse unknown fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: PageLimit,
    pub cursor: Option<Cursor>,
}

impl PageRequest {
    pub fn new(limit: Option<PageLimit>, cursor: Option<Cursor>) -> Self {
        Self {
            limit: limit.unwrap_or_default(),
            cursor,
        }
    }

    /// The sort key after which the page starts, nothing for the first page.
    pub fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, Problem> {
        self.cursor.as_ref().map(Cursor::decode).transpose()
    }

    /// How many rows to read: one more than shown tells whether there is another page.
    pub fn rows_to_read(&self) -> u64 {
        u64::from(self.limit.0) + 1
    }
}

/// The query of a list that has no filters.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// How many items the page may have.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// The `nextCursor` of the page before.
    #[param(inline)]
    pub cursor: Option<Cursor>,
}

impl From<PageQuery> for PageRequest {
    fn from(query: PageQuery) -> Self {
        Self::new(query.limit, query.cursor)
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<Cursor>,
}

impl<T> Page<T> {
    /// Makes a page of up to [`PageRequest::rows_to_read`] rows, sorted by `key`.
    pub fn of_rows<K: Serialize>(
        mut rows: Vec<T>,
        request: &PageRequest,
        key: impl Fn(&T) -> K,
    ) -> Result<Self, Problem> {
        let has_more = rows.len() > request.limit.get();
        rows.truncate(request.limit.get());
        let next_cursor = match rows.last() {
            Some(last) if has_more => Some(Cursor::encode(&key(last))?),
            Some(_) | None => None,
        };
        Ok(Self {
            items: rows,
            next_cursor,
        })
    }

    /// The same page with each item shown in another form.
    pub fn map<U>(self, form: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(form).collect(),
            next_cursor: self.next_cursor,
        }
    }
}
