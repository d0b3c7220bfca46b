package memapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var requestInfos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// call is one request while it is answered.
type call struct {
	*request.RequestInfo
	ctx     context.Context
	gv      schema.GroupVersion
	storage rest.Storage
	http    *http.Request
	body    []byte
}

// RoundTrip implements http.RoundTripper: the answer is complete when it returns.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{http: req}
	out, err := s.serve(c)
	code := http.StatusOK
	if err != nil {
		status := responsewriters.ErrorToAPIStatus(err)
		out, code = status, int(status.Code)
	} else if c.RequestInfo != nil && c.Verb == "create" {
		code = http.StatusCreated
	}
	raw, contentType, err := s.encode(c, out)
	if err != nil {
		return nil, err
	}
	return &http.Response{Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: http.Header{"Content-Type": {contentType}}, Request: req,
		ContentLength: int64(len(raw)), Body: io.NopCloser(bytes.NewReader(raw))}, nil
}

// serve answers a request.
func (s *Server) serve(c *call) (runtime.Object, error) {
	info, err := requestInfos.NewRequestInfo(c.http)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	c.RequestInfo, c.gv = info, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	if c.http.Body != nil {
		defer c.http.Body.Close()
		if c.body, err = io.ReadAll(c.http.Body); err != nil {
			return nil, err
		}
	}
	if !info.IsResourceRequest {
		return s.discovery(c)
	}
	if c.gv == metricsv1beta1.SchemeGroupVersion && s.metrics != nil && info.Resource == "pods" && info.Verb == "list" {
		return s.podMetrics(c)
	}
	path := info.Resource
	if info.Subresource != "" {
		path += "/" + info.Subresource
	}
	if c.storage = s.set.Storages(c.gv)[path]; c.storage == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, info.Verb,
			schema.GroupResource{Group: info.APIGroup, Resource: path}, info.Name, "", 0, true)
	}
	ctx := request.WithRequestInfo(c.http.Context(), info)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "simulate", Groups: []string{user.SystemPrivilegedGroup,
		user.AllAuthenticated}})
	c.ctx = request.WithNamespace(ctx, info.Namespace)
	return s.act(c)
}

// act calls the storage by the request's verb.
func (s *Server) act(c *call) (runtime.Object, error) {
	switch c.Verb {
	case "get":
		if g, ok := c.storage.(rest.Getter); ok {
			return g.Get(c.ctx, c.Name, &metav1.GetOptions{})
		}
	case "list":
		return s.list(c)
	case "create":
		return s.create(c)
	case "update", "patch":
		return s.update(c)
	case "delete":
		return s.remove(c)
	}
	return nil, c.notSupported(c.Verb)
}

// encode writes an object in the form that the request asked for.
func (s *Server) encode(c *call, o runtime.Object) ([]byte, string, error) {
	accept := c.http.Header.Get("Accept")
	if strings.Contains(accept, "as=PartialObjectMetadata;") {
		if m := metadataOf(o); m != nil {
			raw, err := json.Marshal(m)
			return raw, runtime.ContentTypeJSON, err
		}
	}
	if c.RequestInfo != nil && c.gv == metricsv1beta1.SchemeGroupVersion {
		raw, err := json.Marshal(o)
		return raw, runtime.ContentTypeJSON, err
	}
	want := runtime.ContentTypeJSON
	if strings.Contains(accept, runtime.ContentTypeProtobuf) && !isDiscovery(o) {
		want = runtime.ContentTypeProtobuf
	}
	info, ok := runtime.SerializerInfoForMediaType(s.scheme.Codecs.SupportedMediaTypes(), want)
	if !ok {
		return nil, "", fmt.Errorf("no serializer of %s", want)
	}
	gv := c.gv
	if gv.Version == "" {
		gv = coreGroup
	}
	if e, ok := c.storage.(rest.GroupVersionKindProvider); ok {
		if kind := e.GroupVersionKind(gv); kind.Kind != "" {
			gv = kind.GroupVersion()
		}
	}
	var b bytes.Buffer
	err := s.scheme.Codecs.EncoderForVersion(info.Serializer, gv).Encode(o, &b)
	return b.Bytes(), want, err
}

// metadataOf returns the metadata of an object as an object of its own; nil: it has none.
func metadataOf(o runtime.Object) *metav1.PartialObjectMetadata {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil
	}
	out := meta.AsPartialObjectMetadata(m)
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return out
}

// decode reads the request's body into the hub version of its kind, with defaults.
func (s *Server) decode(raw []byte, contentType string, kind schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, error) {
	media, _, _ := strings.Cut(contentType, ";")
	media = cmp.Or(media, runtime.ContentTypeJSON) // as an API server takes a body of no type
	info, ok := runtime.SerializerInfoForMediaType(s.scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("content type %q is not supported", contentType))
	}
	hub := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	o, _, err := s.scheme.Codecs.DecoderToVersion(info.Serializer, hub).Decode(raw, &kind, into)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// kind is the kind of the bodies that the storage takes.
func (s *Server) kind(c *call) (schema.GroupVersionKind, error) {
	if p, ok := c.storage.(rest.GroupVersionKindProvider); ok {
		return p.GroupVersionKind(c.gv), nil
	}
	all, _, err := s.scheme.ObjectKinds(c.storage.New())
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	for _, k := range all {
		if k.GroupVersion() == c.gv {
			return k, nil
		}
	}
	if len(all) == 0 {
		return schema.GroupVersionKind{}, errors.New("the storage has no kind")
	}
	return c.gv.WithKind(all[0].Kind), nil
}
