//! One operation: a method of a path, as the document describes it.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Content, ContentBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
        path::{
            Operation as Described, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
        },
        request_body::RequestBodyBuilder,
        schema::{ObjectBuilder, Type},
        security::SecurityRequirement,
    },
};

use super::{super::page::Page, headers, problems, problems::KnownProblem};

const JSON: &str = "application/json";

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Activities,
    Joining,
    Results,
    Prizes,
    DenyLists,
    Events,
    Service,
}

impl Tag {
    pub(super) const ALL: [Self; 7] = [
        Self::Activities,
        Self::Joining,
        Self::Results,
        Self::Prizes,
        Self::DenyLists,
        Self::Events,
        Self::Service,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Activities => "Activities",
            Self::Joining => "Joining",
            Self::Results => "Results",
            Self::Prizes => "Prizes",
            Self::DenyLists => "Deny lists",
            Self::Events => "Events",
            Self::Service => "Service",
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Activities => "Giveaways and their life cycle.",
            Self::Joining => "Taking part.",
            Self::Results => "Who won, proofs of it, redraws and what became of the prizes.",
            Self::Prizes => "The prize library and its stock.",
            Self::DenyLists => "Who may not take part, everywhere or in one activity.",
            Self::Events => "What other systems report.",
            Self::Service => "Health, metrics and this description.",
        }
    }
}

type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// A method of a path in the making. What the handler's arguments say is added by its route.
#[derive(Clone)]
pub struct Operation {
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    tag: Tag,
    callers: Option<&'static str>,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    body_schema: Option<RefOr<Schema>>,
    body_example: Option<Value>,
    answers: BTreeMap<StatusCode, Response>,
    is_repeatable: bool,
    is_located: bool,
    problems: BTreeSet<KnownProblem>,
    schemas: NamedSchemas,
}

#[derive(Clone)]
struct RequestBody {
    description: String,
    required: Required,
}

impl Operation {
    /// `id` is unique and in camelCase; `summary` is a short sentence without its full stop.
    pub fn new(tag: Tag, id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            description: "",
            tag,
            callers: None,
            parameters: Vec::new(),
            body: None,
            body_schema: None,
            body_example: None,
            answers: BTreeMap::new(),
            is_repeatable: false,
            is_located: false,
            problems: BTreeSet::from([INTERNAL]),
            schemas: Vec::new(),
        }
    }

    /// What there is to know beyond the summary, in Markdown.
    #[must_use]
    pub fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// A body that the caller may send. With a type of its own instead of the handler's argument
    /// where that reads it field by field.
    #[must_use]
    pub fn body_of<T: ToSchema>(mut self, example: Value) -> Self {
        self.body_schema = Some(self.component::<T>());
        self.body(example)
    }

    /// A body that the caller may send.
    #[must_use]
    pub fn body(mut self, example: Value) -> Self {
        self.body_example = Some(example);
        self
    }

    /// An answer in JSON.
    #[must_use]
    pub fn answer<T: ToSchema>(
        mut self,
        status: StatusCode,
        description: &'static str,
        example: Value,
    ) -> Self {
        let schema = self.component::<T>();
        let content = ContentBuilder::new()
            .schema(Some(schema))
            .example(Some(example));
        self.answer_with(status, description, Some((JSON, content.build())))
    }

    /// A page of a list as the answer, in JSON.
    #[must_use]
    pub fn answer_page<T: ToSchema>(mut self, description: &'static str, example: Value) -> Self {
        // By its own name alone all pages would be one component.
        let name = format!("{}Page", T::name());
        self.component::<T>();
        Page::<T>::schemas(&mut self.schemas);
        self.schemas.push((name.clone(), Page::<T>::schema()));
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(name)))
            .example(Some(example));
        self.answer_with(StatusCode::OK, description, Some((JSON, content.build())))
    }

    /// An answer that is text of another type.
    #[must_use]
    pub fn answer_text(
        self,
        status: StatusCode,
        media_type: &'static str,
        description: &'static str,
        example: &str,
    ) -> Self {
        let content = ContentBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .example(Some(example.into()));
        self.answer_with(status, description, Some((media_type, content.build())))
    }

    /// An answer without a body.
    #[must_use]
    pub fn answer_empty(self, status: StatusCode, description: &'static str) -> Self {
        self.answer_with(status, description, None)
    }

    /// The answer tells in `Location` where the new thing is.
    #[must_use]
    pub fn located(mut self) -> Self {
        self.is_located = true;
        self
    }

    /// A header that the caller may send.
    #[must_use]
    pub fn header(mut self, name: &str, description: &str, example: &str) -> Self {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .example(Some(example.into()));
        self.add_parameter(parameter.build());
        self
    }

    /// The problems beside those that the handler's arguments bring.
    #[must_use]
    pub fn problems(mut self, problems: &[KnownProblem]) -> Self {
        self.problems.extend(problems);
        self
    }

    fn answer_with(
        mut self,
        status: StatusCode,
        description: &'static str,
        content: Option<(&'static str, Content)>,
    ) -> Self {
        let mut response = ResponseBuilder::new()
            .description(description)
            .header_ref("x-request-id", headers::reference(headers::REQUEST_ID));
        if let Some((media_type, content)) = content {
            response = response.content(media_type, content);
        }
        self.answers.insert(status, response.build());
        self
    }

    /// A reference to the schema of `T`, which becomes a component with all that it refers to.
    pub(super) fn component<T: ToSchema>(&mut self) -> RefOr<Schema> {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }

    pub(super) fn add_parameter(&mut self, parameter: Parameter) {
        self.parameters.push(parameter);
    }

    pub(super) fn add_problems(&mut self, problems: &[KnownProblem]) {
        self.problems.extend(problems);
    }

    pub(super) fn set_callers(&mut self, callers: &'static str) {
        self.callers = Some(callers);
    }

    pub(super) fn set_repeatable(&mut self) {
        self.is_repeatable = true;
    }

    pub(super) fn set_body<T: ToSchema>(&mut self, required: Required, limit: &str) {
        if self.body_schema.is_none() {
            self.body_schema = Some(self.component::<T>());
        }
        self.body = Some(RequestBody {
            description: format!("At most {limit}; the limit is configurable."),
            required,
        });
    }

    pub(super) fn take_schemas(&mut self) -> NamedSchemas {
        std::mem::take(&mut self.schemas)
    }

    pub(super) fn known_problems(&self) -> &BTreeSet<KnownProblem> {
        &self.problems
    }

    /// The finished description.
    pub(super) fn build(mut self) -> Described {
        let mut operation = OperationBuilder::new()
            .tag(self.tag.name())
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .description(Some(self.full_description()))
            .request_body(self.request_body());
        if !self.parameters.is_empty() {
            operation = operation.parameters(Some(std::mem::take(&mut self.parameters)));
        }
        for (status, response) in self.responses() {
            operation = operation.response(status.as_str(), response);
        }
        let security = match self.callers {
            Some(_) => SecurityRequirement::new::<_, [&str; 0], &str>("bearerAuth", []),
            None => SecurityRequirement::default(),
        };
        operation.security(security).build()
    }

    fn full_description(&self) -> String {
        let callers = match self.callers {
            Some(callers) => format!("**Who:** {callers}."),
            None => "**Who:** anybody; no token is needed.".to_owned(),
        };
        if self.description.is_empty() {
            return callers;
        }
        format!("{}\n\n{callers}", self.description)
    }

    fn request_body(&self) -> Option<utoipa::openapi::request_body::RequestBody> {
        let body = self.body.as_ref()?;
        let content = ContentBuilder::new()
            .schema(self.body_schema.clone())
            .example(self.body_example.clone());
        let body = RequestBodyBuilder::new()
            .description(Some(&body.description))
            .required(Some(body.required.clone()))
            .content(JSON, content.build());
        Some(body.build())
    }

    fn responses(&self) -> BTreeMap<StatusCode, RefOr<Response>> {
        let mut all: BTreeMap<StatusCode, RefOr<Response>> = BTreeMap::new();
        for (status, response) in &self.answers {
            let mut response = response.clone();
            let mut add = |name: &str, header| {
                let header = RefOr::Ref(headers::reference(header));
                response.headers.insert(name.to_owned(), header);
            };
            if self.is_repeatable {
                add("Idempotency-Replayed", headers::REPLAYED);
            }
            if self.is_located {
                add("Location", headers::LOCATION);
            }
            all.insert(*status, response.into());
        }
        for group in problems::by_status(&self.problems) {
            let reference = Ref::from_response_name(group.name());
            all.entry(group.status).or_insert(RefOr::Ref(reference));
        }
        all
    }
}

const INTERNAL: KnownProblem = KnownProblem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "internal",
    "Something failed in the service; it was logged under the request id",
);
