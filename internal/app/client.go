package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/journal"
)

// defaultDataDir is where Gantry keeps its state unless --data-dir says otherwise.
const defaultDataDir = "/var/lib/gantry"

// kubeconfigIn is the administrator's kubeconfig below a data directory.
func kubeconfigIn(dataDir string) string { return filepath.Join(dataDir, "kubeconfig") }

// defaultKubeconfig is the file that a running `gantry up` wrote, empty when there is none.
func defaultKubeconfig() string {
	if path := kubeconfigIn(defaultDataDir); readable(path) {
		return path
	}
	return ""
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// restConfig finds the API server: the named file, $KUBECONFIG, what `gantry up` wrote,
// ~/.kube/config, or the Pod's own service account.
func restConfig(kubeconfig string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		rules.ExplicitPath = defaultKubeconfig()
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", withFix(fmt.Errorf("no API server to ask: %w", err),
			"start `gantry up`, or name a kubeconfig with --kubeconfig")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", err
	}
	cfg.UserAgent = "gantry"
	return cfg, namespace, nil
}

// podName reads "pod/web", "pods/web", "po/web" or "web".
func podName(arg string) (string, error) {
	kind, name, slash := strings.Cut(arg, "/")
	if !slash {
		return arg, nil
	}
	switch strings.ToLower(kind) {
	case "pod", "pods", "po":
		if name != "" {
			return name, nil
		}
	}
	return "", usageError(fmt.Errorf("%q is not a Pod: write pod/NAME", arg))
}

// errNoJournal says that an API server keeps no journal: it is not Gantry's.
var errNoJournal = errors.New("this API server keeps no journal")

// readJournal asks the API server for the entries of one Pod, oldest first.
func readJournal(ctx context.Context, c kubernetes.Interface, namespace, name string) ([]journal.Entry, error) {
	raw, err := c.Discovery().RESTClient().Get().AbsPath("/apis/journal.gantry.dev/v1alpha1/namespaces", namespace,
		"podjournals", name).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		if _, err := c.Discovery().ServerResourcesForGroupVersion("journal.gantry.dev/v1alpha1"); apierrors.IsNotFound(
			err) {
			return nil, errNoJournal
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal of pod %s/%s: %w", namespace, name, err)
	}
	var answer struct {
		Entries []journal.Entry `json:"entries"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("journal of pod %s/%s: %w", namespace, name, err)
	}
	return answer.Entries, nil
}

// findPod returns the Pod, nil when there is none of that name.
func findPod(ctx context.Context, c kubernetes.Interface, namespace, name string) (*corev1.Pod, error) {
	p, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return p, err
}
