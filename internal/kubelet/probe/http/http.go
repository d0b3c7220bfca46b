// Package http is the HTTP probe: a GET request to the container.
//
// In: an httpGet probe. Out: Success for 200 to 399, Warning for a redirect to another host (it is
// not followed), Failure for the rest.
package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
)

const (
	maxBody      = 10 << 10 // bytes read of an answer; the rest is not needed
	maxRedirects = 10
)

// Prober asks over HTTP and HTTPS. Certificates are not verified: the Pod's address is in none.
type Prober struct {
	UserAgent string    // kube-probe/1.37
	Dial      dial.Func // nil dials the network
}

// Probe sends one GET on a connection of its own.
func (a Prober) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	req, err := NewRequest(ctx, t.Probe.HTTPGet, t, a.UserAgent)
	if err != nil {
		return probe.Outcome{Err: err}
	}
	client := http.Client{
		Timeout:       t.Timeout, // from the connection to the last byte
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see Prober
			DisableKeepAlives:  true,
			DisableCompression: true, // no Accept-Encoding of our own
			DialContext:        a.Dial.Or(t.Timeout),
		},
	}
	res, err := client.Do(req)
	if err != nil {
		return probe.Outcome{Result: probe.Failure, Output: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return probe.Outcome{Result: probe.Failure, Err: err}
	}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return probe.Outcome{Result: probe.Success, Output: string(body)}
	case code >= 300 && code < 400:
		return probe.Outcome{Result: probe.Warning,
			Output: "Probe terminated redirects, Response body: " + string(body)}
	default:
		return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf("HTTP probe failed with statuscode: %d", code)}
	}
}

// NewRequest returns the request of a probe, or of a lifecycle hook, of a target's container: to
// its Pod's address unless it names a host.
func NewRequest(ctx context.Context, get *v1.HTTPGetAction, t probe.Target, userAgent string) (*http.Request,
	error) {
	port, err := probe.Port(get.Port, t.Container)
	if err != nil {
		return nil, err
	}
	host := get.Host
	if host == "" {
		host = t.PodIP
	}
	at := urlFor(strings.ToLower(string(get.Scheme)), net.JoinHostPort(host, strconv.Itoa(port)), get.Path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil) // a path needs no leading slash
	if err != nil {
		return nil, err
	}
	setHeaders(req, get.HTTPHeaders, userAgent)
	return req, nil
}

// urlFor keeps the query of a path that has one; a path that is no URL is taken literally.
func urlFor(scheme, host, path string) *url.URL {
	u, err := url.Parse(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	if scheme == "" {
		scheme = "http"
	}
	u.Scheme, u.Host = scheme, host
	return u
}

// setHeaders sets the action's own, and ours unless it has them. An empty User-Agent or Accept is
// not sent at all.
func setHeaders(req *http.Request, own []v1.HTTPHeader, userAgent string) {
	for _, h := range own {
		req.Header.Add(h.Name, h.Value)
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value
		}
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		switch v, ok := req.Header[name]; {
		case !ok:
			req.Header.Set(name, value)
		case v[0] == "" && name == "Accept":
			req.Header.Del(name)
		}
	}
	req.Header.Del("Host")
}

// sameHost follows redirects on the host asked first, ten at most, and stops at one to another
// host.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}
