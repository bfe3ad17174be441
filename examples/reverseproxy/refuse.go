package reverseproxy

import (
	"encoding/json"
	"errors"
	"log"
	"math"
	"net/http"
	"strconv"

	"github.com/warmroute/warmroute/router"
)

// refuse answers for a router that has no endpoint for the request.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if saturated, ok := errors.AsType[*router.SaturatedError](err); ok {
		seconds := int(math.Ceil(saturated.RetryAfter.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(max(1, seconds)))
		writeError(w, http.StatusServiceUnavailable, "saturated", "All endpoints are at their limit. Try again later.")
		return
	}
	if errors.Is(err, router.ErrNoEndpoints) {
		writeError(w, http.StatusServiceUnavailable, "no_endpoints", "No endpoint can serve this request.")
		return
	}
	if r.Context().Err() == nil { // else the client has left the queue
		report(r, err)
	}
	writeError(w, http.StatusServiceUnavailable, "routing_failed", "The request could not be routed.")
}

// report logs why a request could not be routed, which is for the operator to put
// right: the client is not told, and the router's hooks see decisions only. It
// goes where net/http logs what is wrong with a handler.
func report(r *http.Request, err error) {
	logf := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		logf = s.ErrorLog.Printf
	}
	logf("reverseproxy: request not routed: %v", err)
}

// refuseRequest answers a request that can't be read or forwarded as it is.
func refuseRequest(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeError(w, http.StatusRequestEntityTooLarge, "body_too_large", "The request body is too large.")
		return
	}
	writeError(w, http.StatusBadRequest, "request_unreadable", "The request could not be read.")
}

// refuseEndpoint answers for an endpoint that gave no answer. Which one it was
// is nothing for clients.
func refuseEndpoint(w http.ResponseWriter, err error) {
	if failedToDial(err) {
		writeError(w, http.StatusBadGateway, "endpoint_unreachable", "The inference engine could not be reached.")
		return
	}
	writeError(w, http.StatusBadGateway, "endpoint_failed", "The inference engine failed before it answered.")
}

// apiError has the form of the errors of OpenAI's API.
type apiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	var e apiError
	e.Error.Message, e.Error.Code = message, code
	e.Error.Type = "server_error"
	if status < 500 {
		e.Error.Type = "invalid_request_error"
	}
	body, _ := json.Marshal(e) // strings always have a JSON form
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
