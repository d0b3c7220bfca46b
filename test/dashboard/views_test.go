package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

// pod is a Pod of one container that asks for cpu.
func pod(name, image, cpu string) *corev1.Pod {
	return wrappers.MakePod().Name(name).Label("app", name).
		Containers(corev1.Container{Name: "app", Image: image,
			Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}}}).
		Obj()
}

func create(t *testing.T, c *testcluster.Cluster, pods ...*corev1.Pod) {
	t.Helper()
	expect.Eventually(t, "the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	for _, p := range pods {
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func cluster(t *testing.T) *testcluster.Cluster {
	t.Helper()
	c := testcluster.Start(t, testcluster.WithNodes("node-1", "node-2", "node-3"))
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "sleep 3600"})
	c.On(testcluster.Match{Image: "crash"}, testcluster.Script{Sh: "exit 3"})
	return c
}

// blocks is how many Pods the map holds in a state.
func blocks(state string) string {
	return fmt.Sprintf(
		`[...document.querySelector('#main > div').board.pods.values()].filter((p) => p.s === %q).length`,
		state,
	)
}

// Every view draws what the cluster says.
func TestEachViewShowsItsObjects(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 1280, 860)
	b.enter(admin)
	create(t, c, pod("web-1", "web", "100m"), pod("web-2", "web", "250m"), pod("crash", "crash", "50m"),
		pod("huge", "web", "500"))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web-1"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	if _, err := c.Client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.until("two ready Pods", blocks("ready")+" === 2")
	b.until("the Pod without a node", blocks("unscheduled")+" === 1")
	b.until("the Pod that crashes", blocks("failing")+" === 1")
	b.text("default/huge")
	b.text("Insufficient cpu")
	if n := value[int](b, `document.querySelector('#main > div').board.nodes.size`); n != 3 {
		t.Errorf("%d nodes are drawn, want 3", n)
	}
	b.view("#/why/default/pod/huge")
	b.text("pod/huge in default is Pending")
	b.until("the board of three nodes", `document.querySelectorAll('table.board tbody tr[data-node]').length === 3`)
	b.text("NodeResourcesFit refuses")
	b.text("What you can do")
	b.view("#/why/default/pod/web-1")
	b.until("points of three nodes", `document.querySelectorAll('table.board tbody tr[data-node]').length === 3 &&
		document.querySelector('table.board tr.marked')`)

	b.view("#/life/default/web-1?with=default%2Fweb-2")
	b.until("two lives", `document.querySelectorAll('ol.fall').length === 2`)
	b.text("RunPodSandbox")
	b.text("created → bound")
	before := value[float64](b, `document.querySelector('.bar.stage').getBoundingClientRect().width`)
	b.run(script(`document.querySelector('[aria-label="Zoom in"]').click()`))
	b.until(
		"a wider bar",
		fmt.Sprintf(`document.querySelector('.bar.stage').getBoundingClientRect().width > %g`, before),
	)
	b.run(script(`document.querySelectorAll('details summary')[0].click()`))
	b.text("kubernetes-admin")
	b.picture("dashboard-life")

	b.view("#/whatif/probes")
	b.text("18 × 5 s = 90 s")
	b.run(script(`(() => { const r = document.querySelector('input[name=start]'); r.value = 120;
		r.dispatchEvent(new Event('input', { bubbles: true })); })()`))
	b.text("36 × 5 s = 180 s")

	b.view("#/whatif/size")
	b.text("kind: KubeletConfiguration")
	b.view("#/whatif/eviction")
	b.text("nobody goes within")
	b.run(script(`(() => { const r = document.querySelector('input[name=capacity]'); r.value = 2560;
		r.dispatchEvent(new Event('input', { bubbles: true })); })()`))
	b.text("default/besteffort goes, for memory.available")
	evictionSliders(b)

	b.view("#/packet?from=pod%2Fdefault%2Fweb-2&to=service%2Fdefault%2Fweb%3A80&protocol=tcp")
	b.until("a verdict", `document.querySelector('[data-verdict]')`)
	b.until("the steps", `document.querySelectorAll('.path li').length >= 3`)
	b.picture("dashboard-packet")
}

// evictionSliders moves thresholds and usages of a node of which nobody has to go: the victims and
// what is said of them follow.
func evictionSliders(b *tab) {
	b.t.Helper()
	const goes = "default/%s goes, for memory.available"
	calm := func() {
		b.t.Helper()
		for name, to := range map[string]int{"capacity": 4096, "hard": 100, "soft": 512, "besteffort": 512,
			"burstable": 1024} {
			b.slide(name, to)
		}
		b.text("nobody goes within")
	}
	calm()
	b.slide("besteffort", 2048) // usage
	b.text(fmt.Sprintf(goes, "besteffort"))
	calm()
	b.slide("burstable", 3072)
	b.text(fmt.Sprintf(goes, "burstable"))
	calm()
	b.slide("hard", 1568) // thresholds
	b.text(fmt.Sprintf(goes, "burstable"))
	b.text("1568Mi (hard)")
	calm()
	b.slide("soft", 1568)
	b.slide("grace", 120)
	b.text(fmt.Sprintf(goes, "burstable"))
	b.text("1568Mi (soft, 2m0s)")
}

// Each remedy of the view Why has its commands, as gantry why has them, and a button that copies
// each of them whole.
func TestRemediesAreCopied(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 1280, 860)
	b.enter(admin)
	create(t, c, pod("huge", "web", "500"))
	b.until("the Pod without a node", blocks("unscheduled")+" === 1")
	b.view("#/why/default/pod/huge")
	b.text("What you can do")
	want := value[[]string](b, `fetch('/api/why?namespace=default&subject=pod/huge').then((r) => r.json()).then((a) =>
		a.fixes.flatMap((f) => [f.config, f.amend && f.amend.patch, ...(f.run || [])].filter(Boolean)))`)
	shown := value[[]string](b, `[...document.querySelectorAll('.copy pre')].map((p) => p.textContent)`)
	if len(want) == 0 || !slices.Equal(shown, want) {
		t.Fatalf("got commands %q, want those of the answer %q", shown, want)
	}
	// a clipboard of its own: that of a browser without a window may be out of reach
	b.run(script(`Object.defineProperty(navigator, 'clipboard', { value: {
		writeText: async (text) => { window.copied = text; } } })`))
	for i, text := range want {
		got := value[[]string](b, fmt.Sprintf(`(async () => {
			const button = document.querySelectorAll('.copy button')[%d];
			button.click();
			await new Promise((later) => setTimeout(later, 0));
			return [window.copied, button.textContent, button.getAttribute('aria-label').slice(0, 12)];
		})()`, i))
		if label := fmt.Sprintf("Copy %.7s", text); got[0] != text || got[1] != "Copied" || got[2] != label {
			t.Errorf("button %d: got %q, want the clipboard %q, Copied, and the label %q", i, got, text, label)
		}
	}
}

// A change of the cluster is drawn within a second, also when the page was open for a while. The
// quickest of six counts: the others met other work of the machine.
func TestChangesAreDrawnWithinASecond(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 1000, 700)
	b.enter(admin)
	create(t, c, pod("first", "web", "100m"))
	b.until("a ready Pod", blocks("ready")+" === 1")
	comes, goes := time.Hour, time.Hour
	for i := range 6 {
		name := fmt.Sprint("more-", i)
		there := `[...document.querySelector('#main > div').board.pods.values()].some((p) => p.n === "` + name + `")`
		create(t, c, pod(name, "web", "10m"))
		comes = min(comes, b.until("the new Pod", there))
		if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		goes = min(goes, b.until("it is gone", "!"+there))
	}
	if comes > time.Second || goes > time.Second {
		t.Errorf("a Pod was drawn after %s and gone from the page after %s at best, want a second at most", comes, goes)
	}
}

// deploy makes a Deployment of Pods that run.
func deploy(t *testing.T, c *testcluster.Cluster, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: pod(name, "web", "100m").Spec}}}
	if _, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A drain and a rollout are foreseen on a copy of the cluster: the page draws what gantry simulate
// says, follows the sliders, and shows what is refused.
func TestForesight(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("blue", "green"))
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "sleep 3600"})
	b := newTab(t, serve(t, c), 1100, 900)
	b.enter(admin)
	deploy(t, c, "web", 4)
	b.until("four ready Pods", blocks("ready")+" === 4")
	b.view("#/whatif/drain")
	b.text("drain node/blue: done after")
	b.text("gantry simulate drain --delete-emptydir-data node/blue")
	b.until("lives of Pods", `document.querySelectorAll('.track').length >= 2`)
	b.run(script(`(() => { const i = document.querySelector('input[name=nodes]'); i.value = 'red';
		i.dispatchEvent(new Event('input', { bubbles: true })); })()`))
	b.text("red")
	b.until("a refusal", `document.querySelector('.denied')`)
	b.view("#/whatif/rollout?ready=15s") // as measured, such a Pod may be ready at once
	b.text("ready Pods: at least 3 of 4")
	b.run(script(`(() => { const r = document.querySelector('input[name=unavailable]'); r.value = 50;
		r.dispatchEvent(new Event('input', { bubbles: true })); })()`))
	b.text("ready Pods: at least 2 of 4")
	b.until("capacity", `document.querySelectorAll('table').length === 2`)
	// more surge: all four new Pods come at once, and the time line is shorter
	b.slide("unavailable", 0)
	b.text("ready Pods: at least 4 of 4")
	b.text("--max-surge=25% --max-unavailable=0%")
	took := func() float64 {
		b.t.Helper()
		return value[float64](b, `(() => { const m = document.getElementById('main').innerText.match(
			/done after (?:(\d+):)?([\d.]+)/); return 60 * (m[1] || 0) + Number(m[2]); })()`)
	}
	slow := took()
	b.slide("surge", 100)
	b.text("--max-surge=100% --max-unavailable=0%")
	b.until("eight Pods at once", `[...document.querySelectorAll('table')[1].tBodies[0].rows].some((r) =>
		r.cells[1].textContent === '8')`)
	if fast := took(); slow < 3*fast {
		t.Errorf("got %.1f s with a surge of one Pod and %.1f s with one of all four, want four times as long", slow, fast)
	}
}

// What the API server forbids a person is shown as forbidden, and seen once it is allowed.
func TestForbidden(t *testing.T) {
	c := cluster(t)
	create(t, c, pod("web-1", "web", "100m"))
	b := newTab(t, serve(t, c), 1000, 700)
	b.enter(nobody)
	b.until("forbidden nodes", `document.querySelector('[data-forbidden][data-what=nodes]')`)
	b.until("forbidden Pods", `document.querySelector('[data-forbidden][data-what=pods]')`)
	b.text(`User "nobody" cannot list resource "pods"`)
	if n := value[int](b, `document.querySelector('#main > div').board.pods.size`); n != 0 {
		t.Errorf("%d Pods are drawn for somebody who may see none, want 0", n)
	}
	for _, hash := range []string{"#/why/default/pod/web-1", "#/life/default/web-1",
		"#/packet?from=pod%2Fdefault%2Fweb-1&to=service%2Fdefault%2Fkubernetes%3A443",
		"#/whatif/drain?nodes=node-1", "#/whatif/rollout?object=deployment%2Fweb"} {
		b.view(hash)
		b.until("forbidden at "+hash, `document.querySelector('[data-forbidden]')`)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "see"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""},
			Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}},
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "see"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "see"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "nobody"}}}
	if _, err := c.Client.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().RoleBindings("default").Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.view("#/now?namespace=default")
	b.until("the Pods of the namespace", `document.querySelector('#main > div').board?.pods.size === 1`)
	b.until("nodes stay forbidden", `document.querySelector('[data-forbidden][data-what=nodes]')`)
}

// The page goes on after its server was away, with the same session.
func TestARestartOfTheServer(t *testing.T) {
	c := cluster(t)
	s := serve(t, c)
	b := newTab(t, s, 1000, 700)
	b.enter(admin)
	create(t, c, pod("before", "web", "100m"))
	b.until("a ready Pod", blocks("ready")+" === 1")
	s.stop()
	b.text("the server does not answer")
	create(t, c, pod("between", "web", "100m"))
	s.start()
	b.until("it is live again", `document.querySelector('#link[data-live]')`)
	b.until("both Pods", blocks("ready")+" === 2")
}

// Two pages on one host, in one browser: each keeps its session.
func TestTwoPagesOnOneHost(t *testing.T) {
	c := cluster(t)
	first, second := serve(t, c), serve(t, c)
	b := newTab(t, first, 800, 600)
	for _, s := range []*site{first, second, first, second} {
		b.site = s
		b.blank()
		b.open(s.address)
		b.until("a page", `document.getElementById('who').textContent !== '' ||
			document.querySelector('.denied')`)
		if value[bool](b, `document.querySelector('.denied') !== null`) {
			b.blank()
			b.enter(admin)
			s.entered++
		}
		b.until("live", `document.querySelector('#link[data-live]')`)
	}
	if first.entered != 1 || second.entered != 1 {
		t.Errorf("sessions had to be begun %d and %d times, want once each", first.entered, second.entered)
	}
}

// A token is good once, and for nobody without one.
func TestATokenIsGoodOnce(t *testing.T) {
	c := cluster(t)
	s := serve(t, c)
	b := newTab(t, s, 800, 600)
	b.open(s.address)
	b.text("gantry dashboard")
	token := s.server.Token(admin)
	b.open(func() string { return s.address() + "?first#token=" + token })
	b.until("the session", `document.getElementById('who').textContent !== ''`)
	if at := value[string](b, "location.href"); at != "https://"+s.at+"/#/now" {
		t.Errorf("the address is %s: the token stays in it, want %v", at, "https://"+s.at+"/#/now")
	}
	if cookie := value[string](b, "document.cookie"); cookie != "" {
		t.Errorf("scripts see the session: %s, want none", cookie)
	}
	other := newTab(t, s, 800, 600)
	other.open(func() string { return s.address() + "#token=" + token })
	other.text("was used already")
}

// A session that is ended stays ended, for the page and whoever comes later with its cookie.
func TestEndSession(t *testing.T) {
	s := serve(t, cluster(t))
	b := newTab(t, s, 800, 600)
	b.enter(admin)
	b.until("the button", `!document.getElementById('end').hidden`)
	b.run(script(`document.getElementById("end").click()`))
	b.text("No session")
	b.run(chromedp.Reload())
	b.text("gantry dashboard")
	b.until("no button", `document.getElementById('end').hidden`)
}

// The whole page is small and paints soon.
func TestSizeAndFirstPaint(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 1280, 800)
	b.enter(admin)
	b.until("live", `document.querySelector('#link[data-live]')`)
	for _, hash := range []string{"#/life", "#/why", "#/whatif", "#/packet"} {
		b.view(hash)
		b.until("the view", `document.querySelector('#main h1') && location.hash === "`+hash+`"`)
	}
	size := value[int](b, `performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
		.filter((e) => !e.name.includes('/api/')).reduce((n, e) => n + e.decodedBodySize, 0)`)
	if size == 0 || size > 150_000 {
		t.Errorf("all views load %d bytes, want at most 150,000", size)
	}
	line := oneLine(t)
	best, plain := time.Hour, time.Hour
	for n := 0; n == 0 || n < 12 && best > max(mostPaint, paintRatio*plain); n++ {
		b.run(chromedp.Navigate(line))
		plain = min(plain, b.firstPaint())
		b.blank()
		b.open(b.site.address)
		best = min(best, b.firstPaint())
	}
	t.Logf("%d bytes in all, first paint after %s; of a page of one line after %s", size,
		best.Round(time.Millisecond), plain.Round(time.Millisecond))
	if most := max(mostPaint, paintRatio*plain); best > most {
		t.Errorf("the first paint came after %s at best, want %s at most", best, most)
	}
}

// mostPaint is how long the page may take to its first paint, and paintRatio how many times as long
// as a page of one line, where the machine is too slow or too busy for the former.
const (
	mostPaint  = 300 * time.Millisecond
	paintRatio = 3
)

// oneLine serves a page of one line, which tells how fast the machine is, and how busy.
func oneLine(t *testing.T) (address string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<h1>one line</h1>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// firstPaint waits for the first paint of the page and returns how long after its start it came.
func (b *tab) firstPaint() time.Duration {
	b.t.Helper()
	b.until("a paint", `performance.getEntriesByName('first-contentful-paint').length === 1`)
	return time.Duration(value[float64](b,
		`performance.getEntriesByName('first-contentful-paint')[0].startTime`) * float64(time.Millisecond))
}

// fiveThousand makes 100 nodes without kubelets and 5,000 Pods on them.
func fiveThousand(t *testing.T) *testcluster.Cluster {
	t.Helper()
	c := testcluster.Start(t, testcluster.WithNodes())
	create(t, c) // waits for the service account
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	for i := range 100 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)},
			Status: corev1.NodeStatus{Capacity: has, Allocatable: has}}
		if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < 5000; i += 8 {
				p := pod(fmt.Sprint("p", i), "web", "100m")
				p.Spec.NodeName = fmt.Sprint("n", i%100)
				p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return c
}

// mostPods is how long a page may take until 5,000 Pods are on it.
const mostPods = 5 * time.Second

// A cluster of 5,000 Pods: when the page paints first, and when the Pods are on it. The quickest of
// a few counts: the others met other work of the machine.
func TestFirstPaintWithManyPods(t *testing.T) {
	b := newTab(t, serve(t, fiveThousand(t)), 1280, 800)
	b.enter(admin)
	line := oneLine(t)
	paint, painted, plain := time.Hour, time.Hour, time.Hour
	milliseconds := func(expression string) time.Duration {
		return time.Duration(value[float64](b, expression) * float64(time.Millisecond))
	}
	for n := 0; n < 12 && (n < 3 || paint > max(mostPaint, paintRatio*plain) || painted > mostPods); n++ {
		b.run(chromedp.Navigate(line))
		plain = min(plain, b.firstPaint())
		b.blank()
		b.open(b.site.address)
		b.until("all Pods", `document.querySelector('#main > div')?.board?.pods.size === 5000 &&
			document.querySelector('#main > div').board.shown`)
		paint = min(paint, milliseconds(`performance.getEntriesByName('first-contentful-paint')[0].startTime`))
		painted = min(painted, milliseconds(`document.querySelector('#main > div').board.shown`))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("first paint after %s, 5,000 Pods after %s; load average %s", paint.Round(time.Millisecond),
		painted.Round(time.Millisecond), load)
	if most := max(mostPaint, paintRatio*plain); paint > most || painted > mostPods {
		t.Errorf("the page was painted after %s and its Pods after %s at best, want %s and %s at most", paint, painted,
			most, mostPods)
	}
}

// 5,000 Pods, of which 100 change at each frame, are drawn at 60 frames a second: all that the
// page's main thread does for a frame (the change, what waits, layout and paint) takes less than its
// 16.7 ms, in the middle of seven rounds.
func TestManyPods(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	b := newTab(t, serve(t, c), 1280, 860)
	b.enter(admin)
	b.until("live", `document.querySelector('#link[data-live]')`)
	b.run(script(`(() => {
		const view = document.querySelector('#main > div'), nodes = {};
		window.pods = {};
		for (let i = 0; i < 100; i++) nodes['n' + i] = { n: 'n' + i, c: 32000, m: 2 ** 36, p: 110, ok: true, v: 'v1' };
		for (let i = 0; i < 5000; i++) pods['u' + i] = { u: 'u' + i, ns: 'a', n: 'p' + i, node: 'n' + i % 100,
			s: 'ready', c: 100, m: 2 ** 26 };
		window.fill = () => {
			view.take('nodes')({ full: true, set: nodes });
			view.take('pods')({ full: true, set: pods });
		};
	})()`))
	// The cluster's own lists, which are empty, may come after the first try.
	b.until("all Pods", `document.querySelector('#main > div').board.rows.length === 100 || void fill()`)
	const frames, rounds = 60, 7
	const limit = time.Second / 60
	var work []time.Duration
	fastest := 0.0
	for range rounds {
		before := b.mainThread()
		fastest = max(fastest, value[float64](b, fmt.Sprintf(`(async () => {
			const view = document.querySelector('#main > div'), states = ['ready', 'starting', 'failing', 'notready'];
			const begin = performance.now(), painted = view.board.frames;
			for (let k = 0; k < %d; k++) {
				const set = {};
				for (let i = 0; i < 100; i++) { const p = pods['u' + (k * 100 + i) %% 5000]; set[p.u] = { ...p,
					s: states[k %% 4] }; }
				view.take('pods')({ set });
				await new Promise(requestAnimationFrame);
			}
			return 1000 * (view.board.frames - painted) / (performance.now() - begin);
		})()`, frames)))
		work = append(work, (b.mainThread()-before)/frames)
	}
	slices.Sort(work)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("a frame takes %s to %s of the main thread, %s in the middle; %.0f frames a second at best; load average %s",
		work[0], work[rounds-1], work[rounds/2], fastest, load)
	if work[rounds/2] > limit {
		t.Errorf("a frame takes %s of the main thread in the middle, want at most %s", work[rounds/2], limit)
	}
}

// On a phone nothing is wider than the screen.
func TestPhone(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 390, 800)
	b.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	b.enter(admin)
	create(t, c, pod("web-1", "web", "100m"), pod("huge", "web", "500"))
	b.until("a ready Pod", blocks("ready")+" === 1")
	for _, hash := range []string{"#/now", "#/why/default/pod/huge", "#/life/default/web-1", "#/whatif/probes",
		"#/whatif/drain?nodes=none", "#/whatif/eviction", "#/whatif/size",
		"#/packet?from=pod%2Fdefault%2Fweb-1&to=service%2Fdefault%2Fkubernetes%3A443"} {
		b.view(hash)
		b.until("the view", `document.querySelectorAll('#main h1').length === 1`)
		b.run(chromedp.Sleep(300 * time.Millisecond))
		if over := value[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%s is %d pixels wider than the screen", hash, over)
		}
	}
	b.view("#/now")
}

// Past the last column of a line there is no Pod, not the first of the next line.
func TestPastTheLastColumnIsNoPod(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 420, 900)
	b.enter(admin)
	for i := range 90 {
		create(t, c, pod(fmt.Sprintf("web-%02d", i), "web", "1m"))
	}
	b.until("a node with two lines", `document.querySelector('#main > div').board.rows.some((r) =>
		r.pods.length > r.across)`)
	found := value[string](b, `(() => { const b = document.querySelector('#main > div').board;
		const r = b.rows.find((x) => x.pods.length > x.across), box = b.canvas.getBoundingClientRect(), names = [];
		for (let x = box.left; x < box.right + 200; x += 2) {
			const p = b.at({ clientX: x, clientY: box.top - b.offset + r.y + r.top + 3 });
			if (p && !names.includes(p.n)) names.push(p.n);
		}
		return names.length + ' of ' + r.across; })()`)
	if n, across, _ := strings.Cut(found, " of "); n != across {
		t.Errorf("%s Pods are found in a line of %s", n, across)
	}
}

// The map is used by keyboard: arrows move, Enter opens.
func TestKeyboard(t *testing.T) {
	c := cluster(t)
	b := newTab(t, serve(t, c), 1000, 700)
	b.enter(admin)
	create(t, c, pod("web-1", "web", "100m"), pod("web-2", "web", "100m"))
	b.until("two ready Pods", blocks("ready")+" === 2")
	b.run(chromedp.Focus("canvas"), chromedp.KeyEvent(kb.ArrowRight))
	b.until("it is said", `document.getElementById('say').textContent.startsWith('default/web-')`)
	first := value[string](b, `document.getElementById('say').textContent`)
	b.run(script(`document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }))`))
	b.until("another one is said", fmt.Sprintf(`document.getElementById('say').textContent !== %q`, first))
	b.run(chromedp.KeyEvent("\r"))
	b.text("Why is it so")
	b.run(script(`document.activeElement.blur()`), chromedp.KeyEvent("3"))
	b.until("view three", `location.hash === '#/why'`)
}

// The pictures of README.md and docs/user, where they are asked for.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("draws docs/images with -pictures")
	}
	c := testcluster.Start(t, testcluster.WithNodes("blue-1", "blue-2", "green-1", "green-2"))
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "sleep 3600"})
	c.On(testcluster.Match{Image: "crash"}, testcluster.Script{Sh: "exit 3"})
	b := newTab(t, serve(t, c), 1100, 700)
	for i := range 60 {
		create(t, c, pod(fmt.Sprintf("web-%02d", i), "web", fmt.Sprint(100+50*(i%5), "m")))
	}
	for i := range 4 {
		create(t, c, pod(fmt.Sprint("batch-", i), "crash", "100m"), pod(fmt.Sprint("huge-", i), "web", "12"))
	}
	slow := pod("migrate", "web", "100m")
	slow.Spec.InitContainers = []corev1.Container{{Name: "schema", Image: "web"}}
	create(t, c, slow)
	b.enter(admin)
	deploy(t, c, "shop", 6)
	b.until("66 ready Pods", blocks("ready")+" === 66")
	b.until("the failing ones", blocks("failing")+" === 4")
	b.text("init container schema runs")
	b.picture("dashboard-now")
	b.run(script(`document.getElementById('theme').click()`))
	b.view("#/why/default/pod/huge-1")
	b.text("What you can do")
	b.picture("dashboard-why")
	b.run(script(`document.getElementById('theme').click()`))
	b.view("#/whatif/rollout?object=default%2Fdeployment%2Fshop&ready=15s")
	b.text("ready Pods: at least")
	b.picture("dashboard-whatif")
}
