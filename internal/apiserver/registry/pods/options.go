package pods

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddConversions teaches a scheme to read the query options of log, exec, attach, portforward and the three proxies.
// Exec and attach stream stdout and stderr unless told otherwise.
func AddConversions(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		query(func(q values, o *v1.PodLogOptions) {
			q.text("container", &o.Container)
			q.flag("follow", &o.Follow)
			q.flag("previous", &o.Previous)
			q.number("sinceSeconds", &o.SinceSeconds)
			q.moment("sinceTime", &o.SinceTime)
			q.flag("timestamps", &o.Timestamps)
			q.number("tailLines", &o.TailLines)
			q.number("limitBytes", &o.LimitBytes)
			q.flag("insecureSkipTLSVerifyBackend", &o.InsecureSkipTLSVerifyBackend)
			if q.has("stream") {
				o.Stream = new(q.v.Get("stream"))
			}
		}),
		query(func(q values, o *v1.PodExecOptions) {
			o.Stdout, o.Stderr = true, true
			q.flag("stdin", &o.Stdin)
			q.flag("stdout", &o.Stdout)
			q.flag("stderr", &o.Stderr)
			q.flag("tty", &o.TTY)
			q.text("container", &o.Container)
			o.Command = q.v["command"]
		}),
		query(func(q values, o *v1.PodAttachOptions) {
			o.Stdout, o.Stderr = true, true
			q.flag("stdin", &o.Stdin)
			q.flag("stdout", &o.Stdout)
			q.flag("stderr", &o.Stderr)
			q.flag("tty", &o.TTY)
			q.text("container", &o.Container)
		}),
		query(func(q values, o *v1.PodPortForwardOptions) { o.Ports = q.ports("ports") }),
		query(func(q values, o *v1.PodProxyOptions) { q.text("path", &o.Path) }),
		query(func(q values, o *v1.NodeProxyOptions) { q.text("path", &o.Path) }),
		query(func(q values, o *v1.ServiceProxyOptions) { q.text("path", &o.Path) }),
	} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// query makes the conversion of one options type.
func query[T any](read func(values, *T)) func(*runtime.Scheme) error {
	return func(s *runtime.Scheme) error {
		return s.AddConversionFunc((*url.Values)(nil), (*T)(nil), func(a, b any, _ conversion.Scope) error {
			q := values{v: *a.(*url.Values), err: new(error)}
			read(q, b.(*T))
			return *q.err
		})
	}
}

// values reads query parameters; the first error is kept.
type values struct {
	v   url.Values
	err *error
}

func (q values) has(name string) bool { return len(q.v[name]) > 0 }

func (q values) fail(name string, err error) {
	if *q.err == nil {
		*q.err = fmt.Errorf("query parameter %s: %w", name, err)
	}
}

func (q values) text(name string, p *string) {
	if q.has(name) {
		*p = q.v.Get(name)
	}
}

// flag is true for anything but "false" and "0", as upstream reads query strings.
func (q values) flag(name string, p *bool) {
	if q.has(name) {
		switch q.v.Get(name) {
		case "false", "0":
			*p = false
		default:
			*p = true
		}
	}
}

func (q values) number(name string, p **int64) {
	if !q.has(name) {
		return
	}
	n, err := strconv.ParseInt(q.v.Get(name), 10, 64)
	if err != nil {
		q.fail(name, err)
		return
	}
	*p = &n
}

func (q values) moment(name string, p **metav1.Time) {
	if !q.has(name) {
		return
	}
	text := q.v.Get(name)
	if text == "" {
		return
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		q.fail(name, err)
		return
	}
	*p = &metav1.Time{Time: t.Local()}
}

func (q values) ports(name string) []int32 {
	var out []int32
	for _, text := range q.v[name] {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			q.fail(name, err)
			return nil
		}
		out = append(out, int32(n))
	}
	return out
}
