//! `GET /openapi.json`, and `GET /docs`: the same to read and to try out, without the internet.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use actix_web::{
    FromRequest, HttpRequest, HttpResponse,
    dev::Payload,
    http::{StatusCode, header},
    web::{Bytes, Data},
};
use serde_json::json;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, OpenApi, RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
    },
};
use utoipa_swagger_ui::Config;

use super::{
    super::{Endpoint, Problem},
    Described, KnownProblem, Operation, Routes, Tag,
    described::RATE_LIMITED,
};

/// The document as it is served, and as `luckybag openapi` prints it.
#[derive(Clone, Debug)]
pub struct ApiDocument(Bytes);

impl ApiDocument {
    /// Indented, for people and for diffs.
    pub fn new(document: &OpenApi) -> Result<Self, serde_json::Error> {
        let json = document.to_pretty_json()?;
        Ok(Self(format!("{json}\n").into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Needs `Data<ApiDocument>`.
pub fn routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/openapi.json").get(document, document_operation()))
        .service(Endpoint::new("/docs").get(page, page_operation()))
        .service(Endpoint::new("/docs/{file}").get(file, file_operation()));
}

fn operation(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::Service, id, summary)
        .description("Open unless `server.docs` is off; then there is nothing under this path.")
        .problems(&[RATE_LIMITED])
}

fn document_operation() -> Operation {
    operation("getOpenApiDocument", "This description in OpenAPI 3.1").answer::<OpenApiDocument>(
        StatusCode::OK,
        "The document.",
        json!({ "openapi": "3.1.0", "info": { "title": "luckybag", "version": "0.1.0" }, "paths": {} }),
    )
}

/// A document of OpenAPI 3.1.
struct OpenApiDocument;

impl PartialSchema for OpenApiDocument {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::Object)
            .required("openapi")
            .required("info")
            .required("paths");
        Schema::Object(schema.build()).into()
    }
}

impl ToSchema for OpenApiDocument {}

fn page_operation() -> Operation {
    operation("getDocs", "This description as a page").answer_text(
        StatusCode::OK,
        "text/html; charset=utf-8",
        "A page that loads nothing from elsewhere.",
        "<!doctype html>…",
    )
}

fn file_operation() -> Operation {
    operation("getDocsFile", "A file of the page")
        .answer_text(
            StatusCode::OK,
            "*/*",
            "The file; a large one is compressed with gzip, whatever `Accept-Encoding` says.",
            "…",
        )
        .problems(&[NO_FILE])
}

const NO_FILE: KnownProblem =
    KnownProblem::not_found("not_found", "There is nothing under this path");

/// Everything comes from here; Swagger UI sets styles and shows icons from its own code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

// Relative, so that the page also works under a path that a proxy adds.
const PAGE: &str = r#"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>luckybag: HTTP API</title>
    <link rel="stylesheet" href="docs/swagger-ui.css">
    <link rel="stylesheet" href="docs/index.css">
    <link rel="icon" type="image/png" href="docs/favicon-32x32.png">
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="docs/swagger-ui-bundle.js"></script>
    <script src="docs/start.js"></script>
  </body>
</html>
"#;

const START: &str = r##"SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayOperationId: true,
  filter: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
"##;

/// The files of Swagger UI that the page needs.
const FILES: [&str; 4] = [
    "swagger-ui.css",
    "index.css",
    "favicon-32x32.png",
    "swagger-ui-bundle.js",
];

async fn document(document: Data<ApiDocument>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .body(document.0.clone())
}

async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .body(PAGE)
}

async fn file(FileName(name): FileName) -> Result<HttpResponse, Problem> {
    if name == "start.js" {
        return Ok(of_type("text/javascript").body(START));
    }
    let found = if FILES.contains(&name.as_str()) {
        utoipa_swagger_ui::serve(&name, Arc::new(Config::from("openapi.json")))
    } else {
        Ok(None)
    };
    let found = found.map_err(|error| Problem::internal(error.to_string()))?;
    let file =
        found.ok_or_else(|| Problem::not_found("not_found", "there is nothing under this path"))?;
    let mut response = of_type(&file.content_type);
    if file.gzpipped {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
    }
    Ok(response.body(file.bytes.into_owned()))
}

fn of_type(media_type: &str) -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .content_type(media_type)
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
    response
}

/// The name in the path.
struct FileName(String);

impl FromRequest for FileName {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let name = request.match_info().get("file").unwrap_or_default();
        ready(Ok(Self(name.to_owned())))
    }
}

impl Described for FileName {
    fn describe(operation: &mut Operation) {
        let names = FILES.into_iter().chain(["start.js"]);
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(names));
        let parameter = ParameterBuilder::new()
            .name("file")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(schema));
        operation.add_parameter(parameter.build());
    }
}
