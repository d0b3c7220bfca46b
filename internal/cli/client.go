package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// DefaultDataDir is where Gantry keeps its state unless --data-dir says otherwise.
const DefaultDataDir = "/var/lib/gantry"

// KubeconfigIn is the administrator's kubeconfig below a data directory.
func KubeconfigIn(dataDir string) string { return filepath.Join(dataDir, "kubeconfig") }

// DefaultKubeconfig is the file that a running `gantry up` wrote, empty when there is none.
func DefaultKubeconfig() string {
	if path := KubeconfigIn(DefaultDataDir); Readable(path) {
		return path
	}
	return ""
}

func Readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// RestConfig finds the API server: the named file, $KUBECONFIG, what `gantry up` wrote,
// ~/.kube/config, or the Pod's own service account.
func RestConfig(kubeconfig string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		rules.ExplicitPath = DefaultKubeconfig()
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", WithFix(fmt.Errorf("no API server to ask: %w", err),
			"start `gantry up`, or name a kubeconfig with --kubeconfig")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", err
	}
	cfg.UserAgent = "gantry"
	return cfg, namespace, nil
}

// PodName reads "pod/web", "pods/web", "po/web" or "web".
func PodName(arg string) (string, error) {
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
	return "", UsageError(fmt.Errorf("%q is not a Pod: write pod/NAME", arg))
}
