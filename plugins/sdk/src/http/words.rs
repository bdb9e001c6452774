//! What went wrong with a request, in words for a model. `wasi.rs` decides which kind of failure it is.

use wasip2::http::types::ErrorCode as Code;

/// As in "no address is known for this host (address not available)".
pub(super) fn words(code: &Code) -> String {
    let (words, detail) = match code {
        Code::DnsTimeout => ("looking up the host took too long", None),
        Code::DnsError(payload) => ("no address is known for this host", payload.rcode.clone()),
        Code::DestinationNotFound => ("the host was not found", None),
        Code::DestinationUnavailable => ("the host cannot be reached", None),
        Code::DestinationIpProhibited => ("the host has a private or reserved address", None),
        Code::DestinationIpUnroutable => ("there is no route to the host", None),
        Code::ConnectionRefused => ("the host refused the connection", None),
        Code::ConnectionTerminated => ("the connection broke off", None),
        Code::ConnectionTimeout => ("connecting took too long", None),
        Code::ConnectionReadTimeout => ("waiting for the answer took too long", None),
        Code::ConnectionWriteTimeout => ("sending the request took too long", None),
        Code::ConnectionLimitReached => ("too many connections are open", None),
        Code::TlsProtocolError => ("no secure connection came about", None),
        Code::TlsCertificateError => ("the host's certificate is not trusted", None),
        Code::TlsAlertReceived(payload) => {
            ("the host refused a secure connection", payload.alert_message.clone())
        }
        Code::HttpRequestDenied => ("the plugin's host refused the request", None),
        Code::HttpRequestLengthRequired => ("the request needs a length", None),
        Code::HttpRequestBodySize(size) => ("the body of the request has a wrong size", bytes(*size)),
        Code::HttpRequestMethodInvalid => ("the method is not valid", None),
        Code::HttpRequestUriInvalid => ("the address is not valid", None),
        Code::HttpRequestUriTooLong => ("the address is too long", None),
        Code::HttpRequestHeaderSectionSize(size) => {
            ("the headers of the request are too long", bytes(size.map(u64::from)))
        }
        Code::HttpRequestHeaderSize(field) => {
            ("a header of the request is too long", field.as_ref().and_then(|field| field.field_name.clone()))
        }
        Code::HttpResponseIncomplete => ("the answer broke off", None),
        Code::HttpResponseHeaderSectionSize(size) => {
            ("the headers of the answer are too long", bytes(size.map(u64::from)))
        }
        Code::HttpResponseHeaderSize(field) => {
            ("a header of the answer is too long", field.field_name.clone())
        }
        Code::HttpResponseBodySize(size) => ("the answer is too long", bytes(*size)),
        Code::HttpResponseTransferCoding(coding) | Code::HttpResponseContentCoding(coding) => {
            ("the answer has an unknown encoding", coding.clone())
        }
        Code::HttpResponseTimeout => ("the answer took too long", None),
        Code::HttpProtocolError => ("what came back is not HTTP", None),
        Code::InternalError(detail) => ("the request failed", detail.clone()),
        Code::LoopDetected => ("the request went round in a circle", None),
        Code::ConfigurationError => ("the plugin's host is not set up for this", None),
        // Trailers and upgrades, which this client does not use.
        _ => ("the request failed", None),
    };
    match detail {
        Some(detail) => format!("{words} ({detail})"),
        None => words.to_owned(),
    }
}

fn bytes(size: Option<u64>) -> Option<String> {
    size.map(|size| format!("{size} bytes"))
}
