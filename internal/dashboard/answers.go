package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// question is one request of a person: the API server with that person's rights, and what is asked.
type question struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	query     url.Values
	simulate  Simulate
}

// answers are what can be asked by GET, by path below /api/.
var answers = map[string]func(context.Context, question) (any, error){
	"overview":  askOverview,
	"why":       askWhy,
	"life":      askLife,
	"revisions": askRevisions,
	"packet":    askPacket,
	"services":  askServices,
	"suggest":   askSuggest,
}

func (s *Server) ask(answer func(context.Context, question) (any, error)) func(http.ResponseWriter, *http.Request,
	Identity) {
	return func(w http.ResponseWriter, r *http.Request, who Identity) {
		a, err := s.question(r, who)
		if err != nil {
			answerError(w, err)
			return
		}
		out, err := answer(r.Context(), a)
		if err != nil {
			answerError(w, err)
			return
		}
		writeJSON(w, out)
	}
}

func (s *Server) question(r *http.Request, who Identity) (question, error) {
	a := question{query: r.URL.Query(), simulate: s.options.Simulate}
	if a.namespace = a.query.Get("namespace"); a.namespace == "" && r.URL.Path != "/api/overview" {
		if a.namespace = who.Namespace; a.namespace == "" {
			a.namespace = metav1.NamespaceDefault
		}
	}
	if bad := content.IsPathSegmentName(a.namespace); len(bad) > 0 {
		return a, cli.UsageError(fmt.Errorf("%q is no namespace: %s", a.namespace, strings.Join(bad, ", ")))
	}
	var err error
	a.config, a.client, err = s.client(who)
	return a, err
}

func askOverview(ctx context.Context, a question) (any, error) {
	return gather.Overview(ctx, a.client, a.namespace)
}

// whyAnswer is the answer of gantry why, with the scheduler's last attempt to place the Pod.
type whyAnswer struct {
	explain.Answer
	Now       time.Time      `json:"now"`
	Namespace string         `json:"namespace"`
	Board     *journal.Ruled `json:"board,omitempty"` // each node's refusal, or its score by plugin
}

func askWhy(ctx context.Context, a question) (any, error) {
	subject := a.query.Get("subject")
	if subject == "" {
		return nil, cli.UsageError(fmt.Errorf("the query names no subject: subject=KIND/NAME"))
	}
	now := time.Now()
	answer, err := gather.AnswerWith(ctx, a.client, gather.Question{Namespace: a.namespace, About: subject, Now: now})
	if err != nil {
		return nil, err
	}
	out := whyAnswer{Answer: answer, Now: now, Namespace: a.namespace}
	if name, err := cli.PodName(subject); err == nil && len(content.IsPathSegmentName(name)) == 0 {
		// who may not read the journal, or has none, gets the answer without the board
		if entries, err := gather.ReadJournal(ctx, a.client, a.namespace, name); err == nil {
			out.Board = lastRuled(entries, a.uidOf(ctx, name))
		}
	}
	return out, nil
}

// uidOf returns the UID of a Pod that is there; empty when it is gone or may not be read.
func (a question) uidOf(ctx context.Context, name string) string {
	p, err := a.client.CoreV1().Pods(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return string(p.UID)
}

// lastRuled returns the last scheduling attempt of the Pod with a UID, without one of the Pod that
// entries tell of last; attempts of other Pods that had its name do not count.
func lastRuled(entries []journal.Entry, uid string) *journal.Ruled {
	if uid == "" && len(entries) > 0 {
		uid = entries[len(entries)-1].Ref.UID
	}
	for _, e := range slices.Backward(entries) {
		if r, ok := e.Fact.(journal.Ruled); ok && e.Ref.UID == uid {
			return &r
		}
	}
	return nil
}

// life is what the journal holds of all Pods that have or had a name.
type life struct {
	Lives []trace.PodTrace `json:"lives"`
	Now   time.Time        `json:"now"`
}

func askLife(ctx context.Context, a question) (any, error) {
	if bad := content.IsPathSegmentName(a.query.Get("name")); len(bad) > 0 || a.query.Get("name") == "" {
		return nil, cli.UsageError(fmt.Errorf("%q is no Pod's name: %s", a.query.Get("name"), strings.Join(bad, ", ")))
	}
	lives, err := gather.PodTracesWith(ctx, a.client, a.namespace, a.query.Get("name"))
	return life{lives, time.Now()}, err
}

func askRevisions(ctx context.Context, a question) (any, error) {
	return gather.ReadHistory(ctx, a.config, a.client,
		gather.NamedObject{Namespace: a.namespace, Arg: a.query.Get("subject")})
}

func askPacket(ctx context.Context, a question) (any, error) {
	ask, err := packet.ReadTo(a.query.Get("to"), a.namespace, a.query.Get("protocol"))
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if ask.From, err = packet.ReadFrom(a.query.Get("from"), a.namespace); err != nil {
		return nil, cli.UsageError(err)
	}
	w, err := gather.ReadPacketState(ctx, a.client)
	if err != nil {
		return nil, err
	}
	out := packetAnswer{Result: packet.Trace(w, ask)}
	if gather.ReadSockets(ctx, a.client, &w, out.Pods) {
		out.Result = packet.Trace(w, ask)
	}
	if namespace, name, ok := strings.Cut(out.Service, "/"); ok && out.Reason == packet.NoEndpoints {
		q := gather.Question{Namespace: namespace, About: "service/" + name, Now: time.Now()}
		if why, err := gather.AnswerWith(ctx, a.client, q); err == nil {
			out.Why = &why
		}
	}
	return out, nil
}

// packetAnswer is a packet's way, with why its Service has nobody when that is what stops it.
type packetAnswer struct {
	packet.Result
	Why *explain.Answer `json:"why,omitempty"`
}

// destination is a Service and the ports that a packet may be for.
type destination struct {
	Namespace string  `json:"ns"`
	Name      string  `json:"n"`
	Ports     []int32 `json:"ports"`
}

func askServices(ctx context.Context, a question) (any, error) {
	list, err := a.client.CoreV1().Services("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	out := []destination{}
	for _, s := range list.Items {
		d := destination{Namespace: s.Namespace, Name: s.Name}
		for _, p := range s.Spec.Ports {
			d.Ports = append(d.Ports, p.Port)
		}
		out = append(out, d)
	}
	return out, nil
}
