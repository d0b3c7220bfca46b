package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/expect"
)

// stepTimeout is how long a single step may take on a busy machine.
const stepTimeout = 90 * time.Second

// Case is one life of a Pod named p.
type Case struct {
	name    string
	objects string // ConfigMaps, Secrets and so on that are there before
	// of the Pod, YAML; containers without image are busybox; {marks} is a folder of the host,
	// {registry} where images can be pulled
	spec     string
	steps    func(l *podLife) // what is done and waited for
	expected expected
}

// expected is what must have been observed when the steps are done.
type expected struct {
	phases     string // in order
	conditions string // of the last status: Type=Status or Type=Status/Reason
	// by container, of the last status: "running", "waiting REASON", "ended CODE REASON"; " xN"
	// after N restarts
	states map[string]string
	events map[string]string // by container ("" is the Pod itself): reasons in the order of their first sight
}

// podLife is a case being lived at a place.
type podLife struct {
	*testing.T
	*runtimeUnderTest
	ctx   context.Context
	ns    string
	marks string
	h     *history
}

func (c Case) live(t *testing.T, p *runtimeUnderTest) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	l := &podLife{T: t, runtimeUnderTest: p, ctx: ctx, marks: t.TempDir()}
	if err := os.Chmod(l.marks, 0o777); err != nil {
		t.Fatal(err)
	}
	ns, err := p.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "life-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.ns = ns.Name
	l.h = watch(ctx, t, p.client, l.ns)
	t.Cleanup(l.end)
	for doc := range strings.SplitSeq(c.objects, "---") {
		if strings.TrimSpace(doc) != "" {
			l.create(doc)
		}
	}
	l.pod(c.spec)
	if c.steps != nil {
		c.steps(l)
	}
	l.compare(c.expected)
}

// shortly is the grace, in seconds, of Pods that are in the way. With 0 the object goes before the
// containers do: the scheduler gives their room to another Pod, and the kubelet refuses that one as
// OutOfcpu, as upstream's does.
var shortly = int64(1)

// end takes the Pod away and stops watching; a case that failed prints its history.
func (l *podLife) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// it may be gone
	_ = l.client.CoreV1().Pods(l.ns).Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &shortly})
	// in the background
	_ = l.client.CoreV1().Namespaces().Delete(ctx, l.ns, metav1.DeleteOptions{})
	if l.Failed() {
		l.Log("\n" + l.h.transcript())
		log := l.log()
		l.Log("--- node\n" + log[max(0, len(log)-3000):])
	}
}

// create makes one object beside the Pod.
func (l *podLife) create(doc string) {
	l.Helper()
	raw, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		l.Fatal(err)
	}
	obj, _, err := serializer.NewCodecFactory(scheme.Scheme).UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		l.Fatalf("got %v, want no error\n%s", err, doc)
	}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		_, err = l.client.CoreV1().ConfigMaps(l.ns).Create(l.ctx, o, metav1.CreateOptions{})
	case *corev1.Secret:
		_, err = l.client.CoreV1().Secrets(l.ns).Create(l.ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("cases have no %T", o)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// pod creates the Pod as soon as the namespace can have Pods.
func (l *podLife) pod(spec string) {
	l.Helper()
	spec = strings.NewReplacer("{marks}", l.marks, "{registry}", l.registry).Replace(spec)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "p"}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		l.Fatalf("got %v, want no error\n%s", err, spec)
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = busybox
			}
		}
	}
	l.eventually("the namespace takes Pods", func() error {
		_, err := l.client.CoreV1().Pods(l.ns).Create(l.ctx, p, metav1.CreateOptions{})
		if err != nil && !strings.Contains(err.Error(), "serviceaccount") {
			l.Fatal(err)
		}
		return err
	})
}

// eventually asks until there is no error.
func (l *podLife) eventually(what string, f func() error) {
	l.Helper()
	expect.Poll(l, 20*time.Millisecond, stepTimeout, what, f)
}

// compare checks what was seen. Statuses and events come by two watches, either of them first: what
// the steps waited for in one may not be in the other yet.
func (l *podLife) compare(want expected) {
	l.Helper()
	l.eventually("what was to be seen", func() error { return l.h.differs(want) })
	if got := l.h.phases(); want.phases != "" && got != want.phases {
		l.Errorf("phases %s, want %s", got, want.phases)
	}
}

// differs names the first thing of the last status or of the events that is otherwise.
func (h *history) differs(want expected) error {
	last := h.last()
	for w := range strings.FieldsSeq(want.conditions) {
		if have := conditions(last); !slices.Contains(have, w) {
			return fmt.Errorf("condition %s is missing among %v", w, have)
		}
	}
	have := states(last)
	for _, name := range slices.Sorted(maps.Keys(want.states)) {
		if have[name] != want.states[name] {
			return fmt.Errorf("container %s: %q, want %q", name, have[name], want.states[name])
		}
	}
	reasons := h.reasons()
	for _, name := range slices.Sorted(maps.Keys(want.events)) {
		if reasons[name] != want.events[name] {
			return fmt.Errorf("container %q: events %q, want %q", name, reasons[name], want.events[name])
		}
	}
	return nil
}
