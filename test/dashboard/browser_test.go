package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	page "github.com/gantry-project/gantry/internal/dashboard"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/testcluster"
)

var pictures = flag.String("pictures", "", "directory that gets pictures of the views")

// site is a page of a testcluster that can be stopped and started again on the same port.
type site struct {
	t      *testing.T
	server *page.Server
	at     string // host:port
	stop   func()
	cert   tls.Certificate

	entered int // how often a session had to be begun
	writes  writes
}

// writes are requests that reached the API server and are no reads. Safe for concurrent use.
type writes struct {
	mu   sync.Mutex
	asks []string
	all  int // requests, with the reads
}

// actsInAContainer are GETs that do something in a container.
var actsInAContainer = regexp.MustCompile(`/(exec|attach|portforward|run)(/|$)`)

// watched is a transport that notes writes; dry runs are none.
func (w *writes) watched(to http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		w.all++
		if (r.Method != http.MethodGet || actsInAContainer.MatchString(r.URL.Path)) &&
			r.URL.Query().Get("dryRun") != metav1.DryRunAll {
			w.asks = append(w.asks, r.Method+" "+r.URL.RequestURI())
		}
		w.mu.Unlock()
		return to.RoundTrip(r)
	})
}

// report fails the test when the page wrote, or when nothing went this way.
func (w *writes) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asks) > 0 {
		t.Errorf("the page sent %q, want nothing but reads and dry runs", w.asks)
	}
	t.Logf("the page sent %d requests to the API server", w.all)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// serve starts the page of a cluster. Each person is impersonated, as RBAC knows it.
func serve(t *testing.T, c *testcluster.Cluster) *site {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	port, err := ports.Free() // it is listened on again after stop
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, at: fmt.Sprintf("127.0.0.1:%d", port)}
	if s.cert, err = tls.X509KeyPair(certificate, key); err != nil {
		t.Fatal(err)
	}
	seal := make([]byte, page.KeySize)
	rand.Read(seal)
	config := func(i page.Identity) *rest.Config {
		cfg := rest.CopyConfig(c.Config)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: i.Name, Groups: i.Groups}
		cfg.Wrap(s.writes.watched)
		return cfg
	}
	s.server = page.New(page.Options{Key: seal, Cluster: "testcluster", Simulate: simulateHere, Config: config})
	s.start()
	t.Cleanup(func() {
		s.stop()
		s.writes.report(t)
	})
	return s
}

func (s *site) start() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.at)
	if err != nil {
		s.t.Fatal(err)
	}
	s.at = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{s.cert}}) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		s.stop = func() {}
	}
}

// admin may do all; nobody nothing.
var (
	admin  = page.Identity{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	nobody = page.Identity{Name: "nobody", Groups: []string{"system:authenticated"}}
)

// tab is one browser with one tab.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site *site
}

// newTab starts a browser of its own profile, or skips. The browser is started anew when it crashes
// as it starts, twice at most: what it prints is logged.
func newTab(t *testing.T, s *site, width, height int) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium (Debian's package): apt-get install chromium")
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.WindowSize(width, height),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute))
	for try := 1; ; try++ {
		ctx, end := startBrowser(o)
		err := chromedp.Do(ctx, chromedp.Navigate("about:blank"))
		if err == nil {
			t.Cleanup(end)
			return &tab{t, ctx, s}
		}
		end()
		if try == 3 || !strings.Contains(err.Error(), "chrome failed to start") {
			t.Fatalf("browser: %v, want no error", err)
		}
		t.Logf("browser: %v; it is started anew", err)
	}
}

// startBrowser makes the context of a browser, which starts with the first action; end stops it.
func startBrowser(options []chromedp.ExecAllocatorOption) (ctx context.Context, end func()) {
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	return ctx, func() {
		cancel()
		closeTab()
		stop()
	}
}

// open loads the page at an address. The browser gives up what it loads when an interface of the
// host comes or goes, as those of other tests do: then the page is loaded again.
func (b *tab) open(address func() string) {
	b.t.Helper()
	const whole = `document.getElementById("theme").hasAttribute("aria-label") &&
		performance.getEntriesByType("resource").every((e) => !/\.(js|css)$/.test(e.name) || e.responseStatus)`
	for {
		err := chromedp.Do(b.ctx, chromedp.Navigate(address()))
		switch {
		case err == nil && value[bool](b, whole):
			return
		case err != nil && !strings.Contains(err.Error(), "net::ERR_NETWORK_CHANGED"):
			b.t.Fatalf("browser: %v, want no error", err)
		}
		b.t.Logf("browser: the network changed (%v); the page is loaded again", err)
		b.blank()
	}
}

// blank leaves the page, so that it is loaded whole when it is opened again.
func (b *tab) blank() {
	b.t.Helper()
	b.run(chromedp.Navigate("about:blank"))
}

// address is where the site's page is.
func (s *site) address() string { return "https://" + s.at + "/" }

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v, want no error", err)
	}
}

// enter opens the page as a person, by a one-time token.
func (b *tab) enter(who page.Identity) {
	b.t.Helper()
	b.open(func() string { return b.site.address() + "#token=" + b.site.server.Token(who) })
	b.until("the session", `document.getElementById('who').textContent !== ''`)
}

// view goes to a view of the page.
func (b *tab) view(hash string) {
	b.t.Helper()
	b.run(script(fmt.Sprintf(`location.hash = %q`, hash)))
}

// until waits until an expression is true, a minute at most, and says how long it took.
func (b *tab) until(what, expression string) time.Duration {
	b.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if ok {
			return time.Since(begin)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			b.t.Fatalf("%s: never (%v). The page says:\n%s", what, err, text)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// text waits until the view holds a text.
func (b *tab) text(what string) time.Duration {
	b.t.Helper()
	raw, err := json.Marshal(what)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.until("the text "+what, "document.getElementById('main').innerText.includes("+string(raw)+")")
}

// slide moves a slider of the view.
func (b *tab) slide(name string, to int) {
	b.t.Helper()
	b.run(script(fmt.Sprintf(`(() => { const r = document.querySelector('input[type=range][name=%s]');
		r.value = %d; r.dispatchEvent(new Event('input', { bubbles: true })); })()`, name, to)))
}

// mainThread says how long the page's main thread has worked, as the browser reports it: scripts,
// styles, layout and paint, in the thread's own CPU time, which other work of the machine leaves
// alone.
func (b *tab) mainThread() time.Duration {
	b.t.Helper()
	metrics, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]*performance.Metric, error) {
		_, err := cdp.Call(ctx, t, performance.Enable,
			performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
		if err != nil {
			return nil, err
		}
		out, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		return out.Metrics, err
	})
	if err != nil {
		b.t.Fatalf("browser: %v, want no error", err)
	}
	for _, m := range metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	b.t.Fatalf("browser: got metrics %v, want TaskDuration", metrics)
	return 0
}

// script is an action that runs a script.
func script(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](text)
}

// value evaluates an expression, and waits for it when it is a promise.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("browser: %s: %v, want no error", expression, err)
	}
	return out
}

// picture writes what the tab shows, where pictures are asked for.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	b.run(chromedp.Sleep(1200 * time.Millisecond)) // marks of changes fade
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
