package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	page "github.com/gantry-project/gantry/internal/dashboard"
	"github.com/gantry-project/gantry/internal/options"
)

// command is one call of gantry dashboard.
type command struct {
	out        io.Writer
	kubeconfig string
	address    string
	serve      bool
	port       int
	open       bool
}

func New(io cli.IO) *cobra.Command {
	d := &command{out: io.Out}
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Open the dashboard: nodes and Pods live, a Pod's life, why, what if, the path of a packet",
		Long: "dashboard shows the page of `gantry up` your credentials once and prints its address with a token " +
			"that " +
			"opens it one time, within five minutes; where there is a\ndesktop it opens it. What the page shows is " +
			"what the kubeconfig's user may read. It reads only.\n" +
			"The page's certificate is the cluster's own: a browser that does not know the cluster's authority asks " +
			"whether to go on.\n" +
			"With --serve the page is served from here until Ctrl-C, for any Kubernetes that the kubeconfig names.",
		Example: "  gantry dashboard\n  gantry dashboard --kubeconfig admin.kubeconfig --open=false\n  gantry " +
			"dashboard --serve --port 8443",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return d.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&d.kubeconfig, "kubeconfig", "",
		"kubeconfig of the person who looks (default: $KUBECONFIG, then what `gantry up` wrote)")
	f.StringVar(
		&d.address,
		"address",
		"",
		"where the page is served, 127.0.0.1:PORT (default: as `gantry up` wrote down beside the kubeconfig, then "+
			"port 6480)",
	)
	f.BoolVar(&d.serve, "serve", false, "serve the page from here, for any cluster")
	f.IntVar(&d.port, "port", 0, "with --serve: the port on 127.0.0.1 (default: any that is free)")
	f.BoolVar(&d.open, "open", true, "open the page where there is a desktop, besides printing its address")
	return c
}

func (d *command) run(ctx context.Context) error {
	if d.port < 0 || d.port > 65535 {
		return cli.UsageError(fmt.Errorf("--port %d: must be between 1 and 65535, or 0 for any", d.port))
	}
	if d.serve && d.address != "" {
		return cli.UsageError(errors.New("--serve and --address exclude each other: --port says where to serve"))
	}
	cfg, namespace, err := cli.RestConfig(d.kubeconfig)
	if err != nil {
		return err
	}
	if d.serve {
		return d.serveHere(ctx, cfg, namespace)
	}
	address, err := d.find()
	if err != nil {
		return err
	}
	token, err := askToken(ctx, cfg, address, namespace)
	if err != nil {
		return err
	}
	d.show(ctx, address, token)
	return nil
}

// usualAddress is where `gantry up` serves the page unless something else is there.
const usualAddress = "127.0.0.1:6480"

// find says where the page is served.
func (d *command) find() (string, error) {
	if d.address != "" {
		host, _, err := net.SplitHostPort(d.address)
		if ip, bad := netip.ParseAddr(host); err != nil || host != "localhost" && (bad != nil || !ip.IsLoopback()) {
			return "", cli.UsageError(fmt.Errorf("--address %q: must be 127.0.0.1:PORT; credentials are shown to this "+
				"machine only", d.address))
		}
		return d.address, nil
	}
	file := d.kubeconfig
	if file == "" {
		file = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	if file == "" {
		file = cli.DefaultKubeconfig()
	}
	if at := options.DashboardAddress(filepath.Dir(file)); file != "" && at != "" {
		return at, nil
	}
	return usualAddress, nil
}

// askToken shows the credentials of cfg to the page's server, whose certificate must be of the
// cluster's authority, and gets a one-time token.
func askToken(ctx context.Context, cfg *rest.Config, address, namespace string) (string, error) {
	if cfg.Insecure {
		return "", cli.WithFix(errors.New("this kubeconfig does not check certificates (insecure-skip-tls-verify): "+
			"credentials are not shown to whoever listens at "+address),
			"use a kubeconfig with the certificate-authority, or serve the page from here with --serve")
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // it is on this machine
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return "", err
	}
	client.Timeout = 10 * time.Second
	to := url.URL{Scheme: "https", Host: address, Path: "/api/token",
		RawQuery: url.Values{"namespace": {namespace}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", cli.WithFix(fmt.Errorf("no page answers at %s: %w", address, err),
			"start `gantry up`, name the page with --address, or serve it from here with --serve")
	}
	defer res.Body.Close()
	var answer struct{ Token, Error string }
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer)
	if err != nil || res.StatusCode != http.StatusOK || answer.Token == "" {
		return "", cli.WithFix(fmt.Errorf("the page at %s gives no token: %s %s", address, res.Status, answer.Error),
			"check that the kubeconfig is one of this cluster")
	}
	return answer.Token, nil
}

// show prints the address and opens it where there is a desktop. The opener gets a file of this
// user's that leads there: arguments of programs can be read by everybody.
func (d *command) show(ctx context.Context, address, token string) {
	at := "https://" + address + "/#token=" + token
	fmt.Fprintf(d.out, "%s\n", at)
	desktop := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	program, err := exec.LookPath("xdg-open")
	if !d.open || !desktop || err != nil {
		return
	}
	file, err := writeRedirect(at)
	if err != nil {
		return // the address was printed
	}
	_ = exec.CommandContext(ctx, program, file).Run()
}

// redirectPrefix begins the names of the directories of files that lead to the page.
const redirectPrefix = "gantry-dashboard-"

// writeRedirect writes a page that leads to an address, in a directory that only this user reads.
// The browser reads it after the opener has ended, so it is removed by the next call: its token is
// good once, for minutes.
func writeRedirect(at string) (string, error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), redirectPrefix+"*")) // the pattern is well-formed
	for _, dir := range old {
		_ = os.RemoveAll(dir) // others' stay
	}
	dir, err := os.MkdirTemp("", redirectPrefix)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "open.html")
	text := "<!doctype html>\n<meta http-equiv=\"refresh\" content=\"0; url=" + html.EscapeString(at) + "\">\n"
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// serveHere serves the page as the kubeconfig's user until ctx ends.
func (d *command) serveHere(ctx context.Context, cfg *rest.Config, namespace string) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	who := page.Identity{Name: cfg.Host, Namespace: namespace}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return cli.WithFix(err, "check that the kubeconfig's API server is reached and knows its user")
	}
	who.Name = review.Status.UserInfo.Username
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)))
	if err != nil {
		return cli.WithFix(err, "choose another port with --port")
	}
	seal := make([]byte, page.KeySize)
	rand.Read(seal)
	server := page.New(
		page.Options{Key: seal, Cluster: cfg.Host, Simulate: app.NewSimulate(executable),
			Config: func(page.Identity) *rest.Config { return cfg }},
	)
	d.show(ctx, l.Addr().String(), server.Token(who))
	return server.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{pair}})
}
