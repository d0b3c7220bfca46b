package kubelet_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// goroutineStarters are the packages that may start a program, and which: never a container's.
var goroutineStarters = map[string]string{
	"images/credentialprovider": "credential provider plugins", "server/nodelog": "journalctl",
	"userns/allocations": "getsubids",
}

// The kubelet starts no processes itself, writes no packet rules, hands out no addresses and places
// no Pods: containers are made by calls to the runtime, the Pod's network by the runtime's plugin,
// and the node's name comes with the Pod.
//
// row: KSL-07
func TestKubeletStartsNoProcessesAndWritesNoRules(t *testing.T) {
	others := []string{"nftables", "iptables", "netlink", "netfilter", "containernetworking", "internal/network",
		"internal/scheduler", "k8s.io/kube-scheduler", "opencontainers/runc", "containerd/v2"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if name == "os/exec" && goroutineStarters[filepath.Dir(path)] == "" {
				t.Errorf("%s starts programs: have the runtime do it, or say in starters what it starts", path)
			}
			for _, other := range others {
				if strings.Contains(name, other) {
					t.Errorf("%s imports %s, which is not the kubelet's business", path, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
