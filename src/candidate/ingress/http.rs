//! `POST /v1/events/presence` and `POST /v1/events/tasks`.

use actix_web::{HttpResponse, web::Data};

use super::{
    Ingress,
    forms::{EventsBody, Reported},
    operations,
};
use crate::{
    candidate::{PresenceEvent, TaskEvent},
    http::{Accepted, BatchBody, Endpoint, Problem, Routes, Service},
};

/// The routes of events; they need `Data<Ingress>`.
pub fn routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/v1/events/presence").post(presence, operations::presence()))
        .service(Endpoint::new("/v1/events/tasks").post(tasks, operations::tasks()));
}

/// Takes who entered and left rooms.
async fn presence(
    _service: Service,
    body: BatchBody<EventsBody>,
    ingress: Data<Ingress>,
) -> Result<HttpResponse, Problem> {
    take::<PresenceEvent>(body.0, &ingress).await
}

/// Takes who finished tasks.
async fn tasks(
    _service: Service,
    body: BatchBody<EventsBody>,
    ingress: Data<Ingress>,
) -> Result<HttpResponse, Problem> {
    take::<TaskEvent>(body.0, &ingress).await
}

async fn take<E: Reported>(body: EventsBody, ingress: &Ingress) -> Result<HttpResponse, Problem> {
    ingress.take::<E>(body).await?;
    Ok(HttpResponse::Accepted().json(Accepted::NEW))
}
