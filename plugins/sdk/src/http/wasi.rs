//! The client over `wasi:http/outgoing-handler`.

use super::words::words;
use super::{Request, Response, Target};
use crate::Failure;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, HeaderError, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

/// `blocking-write-and-flush` takes at most this much at once.
const WRITE_BYTES: usize = 4096;
/// The host hands out at most this much at once.
const READ_BYTES: u64 = 64 * 1024;

pub(super) fn send(request: &Request, target: &Target<'_>) -> Result<Response, Failure> {
    let outgoing = OutgoingRequest::new(headers(request)?);
    let method = match request.method.as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    };
    let scheme = if target.is_https { Scheme::Https } else { Scheme::Http };
    set(outgoing.set_method(&method), "method", &request.method)?;
    set(outgoing.set_scheme(Some(&scheme)), "scheme", &request.url)?;
    set(outgoing.set_authority(Some(target.authority)), "host", target.authority)?;
    set(outgoing.set_path_with_query(Some(&target.path_with_query)), "path", &target.path_with_query)?;

    let options = RequestOptions::new();
    let timeout_ns = request.timeout_ms.saturating_mul(1_000_000);
    // silent: a host that does not know one of these timeouts still has its own limits
    let _ = options.set_connect_timeout(Some(timeout_ns));
    let _ = options.set_first_byte_timeout(Some(timeout_ns));
    let _ = options.set_between_bytes_timeout(Some(timeout_ns));

    let body = outgoing.body().map_err(|()| Failure::other("the request has no body to write to"))?;
    let pending =
        outgoing_handler::handle(outgoing, Some(options)).map_err(|code| refused(request, &code))?;
    write_body(body, request)?;
    pending.subscribe().block();
    match pending.get() {
        Some(Ok(Ok(response))) => read(&response, request),
        Some(Ok(Err(code))) => Err(refused(request, &code)),
        Some(Err(())) | None => Err(lost(request, "the host gave no answer")),
    }
}

fn set(outcome: Result<(), ()>, what: &str, value: &str) -> Result<(), Failure> {
    outcome.map_err(|()| Failure::invalid_arguments(format!("`{value}` is not a valid {what}")))
}

fn headers(request: &Request) -> Result<Fields, Failure> {
    let fields = Fields::new();
    // Without a length the host would send the body in chunks, which not every server takes.
    let has_length = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = ("content-length".to_owned(), request.body.len().to_string());
    let length = (!has_length && !request.is_safe()).then_some(&length);
    for (name, value) in request.headers.iter().chain(length) {
        fields.append(name, value.as_bytes()).map_err(|error| match error {
            HeaderError::Forbidden => Failure::denied(format!("the header `{name}` is set by the host only")),
            HeaderError::InvalidSyntax => {
                Failure::invalid_arguments(format!("`{name}: {value}` is not a valid header"))
            }
            HeaderError::Immutable => Failure::other("the headers cannot be changed any more"),
        })?;
    }
    Ok(fields)
}

fn write_body(body: OutgoingBody, request: &Request) -> Result<(), Failure> {
    if !request.body.is_empty() {
        let stream =
            body.write().map_err(|()| Failure::other("the body of the request cannot be written"))?;
        for piece in request.body.chunks(WRITE_BYTES) {
            // A server may answer before it has read everything: what it said counts, so this is not the end.
            if stream.blocking_write_and_flush(piece).is_err() {
                break;
            }
        }
    }
    match OutgoingBody::finish(body, None) {
        Ok(()) => Ok(()),
        // A stream that the other side closed makes this fail too; the answer tells more.
        Err(ErrorCode::HttpRequestBodySize(_)) => Ok(()),
        Err(code) => Err(refused(request, &code)),
    }
}

fn read(response: &IncomingResponse, request: &Request) -> Result<Response, Failure> {
    let headers = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let (mut body, mut is_truncated) = (Vec::new(), false);
    if let Ok(incoming) = response.consume() {
        is_truncated = read_body(&incoming, request.max_bytes, &mut body);
    }
    Ok(Response { status: response.status(), headers, body, is_truncated })
}

/// True if what was read is not all. A body that breaks off is kept as far as it came.
fn read_body(incoming: &IncomingBody, max_bytes: usize, body: &mut Vec<u8>) -> bool {
    let Ok(stream) = incoming.stream() else { return true };
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(piece) => body.extend_from_slice(&piece),
            Err(StreamError::Closed) => return false,
            Err(StreamError::LastOperationFailed(_)) => return true,
        }
        if body.len() > max_bytes {
            body.truncate(max_bytes);
            return true;
        }
    }
}

/// No answer came after the request may have been sent.
fn lost(request: &Request, what: &str) -> Failure {
    let message = format!("{} {}: {what}", request.method, request.url);
    if request.is_safe() { Failure::unavailable(message) } else { Failure::OutcomeUnknown(message) }
}

fn refused(request: &Request, code: &ErrorCode) -> Failure {
    let message = format!("{} {}: {}", request.method, request.url, words(code));
    match code {
        ErrorCode::HttpRequestDenied
        | ErrorCode::DestinationIpProhibited
        | ErrorCode::DestinationIpUnroutable => Failure::Denied(format!(
            "{} {}: this address is not granted to the plugin ({})",
            request.method,
            request.url,
            words(code)
        )),
        ErrorCode::DestinationNotFound | ErrorCode::DnsError(_) => Failure::NotFound(message),
        ErrorCode::HttpRequestMethodInvalid
        | ErrorCode::HttpRequestUriInvalid
        | ErrorCode::HttpRequestUriTooLong
        | ErrorCode::HttpRequestHeaderSectionSize(_)
        | ErrorCode::HttpRequestHeaderSize(_)
        | ErrorCode::HttpRequestBodySize(_)
        | ErrorCode::HttpRequestLengthRequired => Failure::InvalidArguments(message),
        // Before anything was sent: certainly nothing happened.
        ErrorCode::DnsTimeout
        | ErrorCode::DestinationUnavailable
        | ErrorCode::ConnectionRefused
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionLimitReached
        | ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_) => Failure::unavailable(message),
        // Everything else may have come after the request was sent.
        _ => lost(request, &words(code)),
    }
}
