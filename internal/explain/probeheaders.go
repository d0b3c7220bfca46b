package explain

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/journal"
)

// statusWords is how a kubelet tells which answer an HTTP probe got.
var statusWords = regexp.MustCompile(`statuscode: (\d{3})`)

// headerBlame is the header of an HTTP probe that its server's answer is about.
type headerBlame struct {
	index int    // in httpHeaders; -1: the probe sends none of that name
	name  string // such as Host
	value string // what is sent; of a login only that there is one
	want  string // what would do; empty: not known
	text  string // goes on after "gets statuscode: N"
}

// field is the header's field below the probe.
func (b headerBlame) field() string {
	if b.index < 0 {
		return ".httpGet.httpHeaders"
	}
	return fmt.Sprintf(".httpGet.httpHeaders[%d].value", b.index)
}

// headerFor is the header by which a server chooses the answer of a status: the host it is asked
// for, the login, or what the program reads.
var headerFor = map[int]string{400: "Host", 401: "Authorization", 403: "Host", 404: "Host", 406: "Accept",
	407: "Proxy-Authorization", 415: "Content-Type", 421: "Host"}

// answerOfHeader is the header to which a failed HTTP probe's answer points. A server that serves
// by name answers 421, or 400, 403 and 404, to a name that it does not know; what a path alone may
// explain is left to the path unless the names that are served are known.
func answerOfHeader(in In, c *corev1.Container, p *corev1.Probe, words string) (headerBlame, bool) {
	m := statusWords.FindStringSubmatch(strings.ToLower(words))
	if m == nil || p == nil || p.HTTPGet == nil {
		return headerBlame{}, false
	}
	code, _ := strconv.Atoi(m[1]) // digits
	b := headerBlame{name: headerFor[code]}
	if b.name == "" {
		return b, false
	}
	b.index = slices.IndexFunc(p.HTTPGet.HTTPHeaders,
		func(h corev1.HTTPHeader) bool { return strings.EqualFold(h.Name, b.name) })
	if b.index >= 0 {
		b.value = p.HTTPGet.HTTPHeaders[b.index].Value
	}
	switch {
	case b.name == "Host":
		return hostBlame(p, code, b, append(servedHosts(in), ownHosts(in, c)...))
	case strings.HasSuffix(b.name, "Authorization") && b.index >= 0:
		b.value = "set"
		b.text = fmt.Sprintf(": the server refuses the login that its header %s has", b.name)
	case strings.HasSuffix(b.name, "Authorization"):
		b.text = fmt.Sprintf(": the server wants a login, and the probe sends no header %s", b.name)
	case b.index < 0:
		return b, false
	default:
		b.text = fmt.Sprintf(" with the header %s: %s", b.name, b.value)
	}
	return b, true
}

// hostBlame looks at the name by which a probe asks.
func hostBlame(p *corev1.Probe, code int, b headerBlame, served []string) (headerBlame, bool) {
	known := func(name string) bool {
		host := name
		if h, _, err := net.SplitHostPort(name); err == nil {
			host = h
		}
		return slices.Contains(served, host)
	}
	if len(served) > 0 {
		b.want = served[0]
		if near := nearestName(b.value, served); near != "" {
			b.want = near
		}
	}
	certain := code == 421 || code == 400
	switch {
	case b.index >= 0 && known(b.value), b.index < 0 && !certain:
		return b, false
	case b.index >= 0 && !certain && len(served) == 0:
		return b, p.HTTPGet.Path == "/" && hostText(&b, served)
	}
	return b, hostText(&b, served)
}

// hostText says which name the probe asks by, and which are served.
func hostText(b *headerBlame, served []string) bool {
	if b.index < 0 {
		b.value = ""
		b.text = ": it sends no header Host, so it asks by the Pod's address, and a server that serves by name " +
			"refuses a name that is not its own"
	} else {
		b.text = fmt.Sprintf(" with the header Host: %s: a server that serves by name refuses a name that is not "+
			"its own",
			b.value)
	}
	if len(served) > 0 {
		b.text += "; the names that Ingresses and its settings know are " + joinList(served)
	}
	return true
}

// servedHosts are the hosts by which Ingresses lead to Services that select the Pod, sorted.
func servedHosts(in In) []string {
	if in.Objects == nil || in.Pod == nil {
		return nil
	}
	mine := map[string]bool{}
	for _, o := range in.Objects.Objects["Service"] {
		if s, ok := o.(*corev1.Service); ok && s.Namespace == in.Pod.Namespace && len(s.Spec.Selector) > 0 &&
			labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(in.Pod.Labels)) {
			mine[s.Name] = true
		}
	}
	var out []string
	for _, o := range in.Objects.Objects["Ingress"] {
		x, ok := o.(*networkingv1.Ingress)
		if !ok || x.Namespace != in.Pod.Namespace {
			continue
		}
		for _, r := range x.Spec.Rules {
			if r.Host == "" || strings.HasPrefix(r.Host, "*") || r.HTTP == nil {
				continue
			}
			for _, path := range r.HTTP.Paths {
				if s := path.Backend.Service; s != nil && mine[s.Name] {
					out = append(out, r.Host)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var (
	hostSetting = regexp.MustCompile(`(?i)host|domain|server_?name`)
	hostInFile  = regexp.MustCompile(`(?im)(?:server_name|servername|serveralias|virtual_?host|allowed_?hosts?|` +
		`hostnames?|domains?)["']?[\s:=\[("']+([a-z0-9-]+(?:\.[a-z0-9-]+)+)`)
	hostWord = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}$`)
)

// ownHosts are names that a container's settings say it serves: variables and arguments named after
// hosts, and lines of the ConfigMaps that it mounts.
func ownHosts(in In, c *corev1.Container) []string {
	var out []string
	add := func(text string) {
		for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(", ;='\"", r) }) {
			if w = strings.ToLower(w); hostWord.MatchString(w) && net.ParseIP(w) == nil {
				out = append(out, w)
			}
		}
	}
	for _, e := range c.Env {
		if hostSetting.MatchString(e.Name) {
			add(e.Value)
		}
	}
	for _, a := range slices.Concat(c.Command, c.Args) {
		if hostSetting.MatchString(a) {
			add(a)
		}
	}
	if in.NamespaceContext == nil {
		return out
	}
	for _, v := range in.Pod.Spec.Volumes {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if v.ConfigMap == nil || !mounted {
			continue
		}
		for key, text := range in.NamespaceContext.Values {
			if !strings.HasPrefix(key, v.ConfigMap.Name+"/") {
				continue
			}
			for _, m := range hostInFile.FindAllStringSubmatch(text, -1) {
				add(m[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// headerFixes are remedies for a probe whose header its server does not take.
func headerFixes(in In, f journal.Probed, b headerBlame) []Fix {
	var out []Fix
	set := func(h *corev1.HTTPGetAction, value string) {
		for i := range h.HTTPHeaders {
			if strings.EqualFold(h.HTTPHeaders[i].Name, b.name) {
				h.HTTPHeaders[i].Value = value
				return
			}
		}
		h.HTTPHeaders = append(h.HTTPHeaders, corev1.HTTPHeader{Name: b.name, Value: value})
	}
	if b.want != "" {
		out = append(out, editedProbe(in, f, fmt.Sprintf("ask by a name that is served: header %s: %s", b.name, b.want),
			func(x *corev1.Probe) { set(x.HTTPGet, b.want) }))
	}
	switch {
	case b.index >= 0:
		out = append(out, editedProbe(in, f, fmt.Sprintf("ask without the header %s", b.name),
			func(x *corev1.Probe) {
				x.HTTPGet.HTTPHeaders = slices.DeleteFunc(x.HTTPGet.HTTPHeaders,
					func(h corev1.HTTPHeader) bool { return strings.EqualFold(h.Name, b.name) })
			}))
	case b.name == "Host" && b.want == "":
		out = append(out, editedProbe(in, f, "ask by the name localhost, which servers often take: header Host: "+
			"localhost",
			func(x *corev1.Probe) { set(x.HTTPGet, "localhost") }),
			Fix{Description: "or let httpHeaders have Host with a name that the program serves"})
	}
	return out
}
