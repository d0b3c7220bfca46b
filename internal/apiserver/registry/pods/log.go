package pods

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"
)

// logREST is pods/log: the kubelet's stream, passed through.
type logREST struct {
	noDestroy
	pods     *podStore
	kubelets *kubeletLocator
}

var (
	_ rest.GetterWithOptions = &logREST{}
	_ rest.StorageMetadata   = &logREST{}
)

func (r *logREST) New() runtime.Object               { return &v1.Pod{} }
func (r *logREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }
func (r *logREST) ProducesObject(string) any         { return "" }
func (r *logREST) OverrideMetricsVerb(string) string { return "CONNECT" }
func (r *logREST) NewGetOptions() (runtime.Object, bool, string) {
	return &v1.PodLogOptions{}, false, ""
}

// Get opens the log of one container.
func (r *logREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	opts, ok := options.(*v1.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if errs := validateLogOptions(opts); len(errs) > 0 {
		return nil, errors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, name, errs)
	}
	location, transport, err := r.location(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return &genericrest.LocationStreamer{
		Location: location, Transport: transport, ContentType: "text/plain", Flush: opts.Follow,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(schema.GroupResource{Resource: "pods/log"}, name),
		RedirectChecker: genericrest.PreventRedirects,
	}, nil
}

// location is nil without error for a Pod that has no node yet: its log is empty.
func (r *logREST) location(ctx context.Context, name string,
	opts *v1.PodLogOptions) (*url.URL, http.RoundTripper, error) {
	p, err := r.pods.pod(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	c, err := container(p, opts.Container)
	if err != nil {
		return nil, nil, err
	}
	if p.Spec.NodeName == "" {
		return nil, nil, nil
	}
	u, err := r.kubelets.location(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	u.Path = fmt.Sprintf("/containerLogs/%s/%s/%s", p.Namespace, p.Name, c)
	u.RawQuery = logQuery(opts).Encode()
	if !opts.InsecureSkipTLSVerifyBackend {
		return u, kubeletTransport{r.kubelets.Kubelet, u.Hostname()}, nil
	}
	if r.kubelets.KubeletInsecure == nil {
		return nil, nil, errors.NewBadRequest("insecureSkipTLSVerifyBackend is not offered by this API server")
	}
	return u, r.kubelets.KubeletInsecure, nil
}

func logQuery(o *v1.PodLogOptions) url.Values {
	q := url.Values{}
	flag := func(name string, on bool) {
		if on {
			q.Add(name, "true")
		}
	}
	number := func(name string, n *int64) {
		if n != nil {
			q.Add(name, strconv.FormatInt(*n, 10))
		}
	}
	flag("follow", o.Follow)
	flag("previous", o.Previous)
	flag("timestamps", o.Timestamps)
	number("sinceSeconds", o.SinceSeconds)
	number("tailLines", o.TailLines)
	number("limitBytes", o.LimitBytes)
	if o.SinceTime != nil {
		q.Add("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	return q
}

func validateLogOptions(o *v1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines,
			"must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs,
			field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil { // the gate PodLogsQuerySplitStreams is alpha
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}
