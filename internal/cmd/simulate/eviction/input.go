package eviction

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

// readFile reads the mix, the only document of the file.
func (e *evictionCommand) readFile() (nodepressure.Node, error) {
	raw, source := []byte(nil), e.file
	var err error
	if e.file == "-" {
		source = "stdin"
		raw, err = io.ReadAll(e.in)
	} else {
		raw, err = os.ReadFile(e.file)
	}
	if err != nil {
		return nodepressure.Node{}, err
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	doc, err := docs.Read()
	if err == nil {
		if _, more := docs.Read(); !errors.Is(more, io.EOF) {
			err = errors.New("has more than one document")
		}
	}
	var n nodepressure.Node
	if err == nil {
		n, err = nodepressure.ReadScenario(doc)
	}
	if err != nil {
		return n, cli.WithFix(fmt.Errorf("%s: %w", source, err),
			"docs/user/node-pressure.md has the fields and an example")
	}
	return n, nil
}

// settings are the eviction fields that --set changes.
var settings = []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"}

// splitSets tells changes of the configuration from those of figures.
func splitSets(sets []string) (config, figures []string) {
	for _, s := range sets {
		field := s[:max(0, strings.IndexAny(s+".", ".="))]
		if slices.Contains(settings, field) {
			config = append(config, s)
		} else {
			figures = append(figures, s)
		}
	}
	return config, figures
}

// configure gives the node its thresholds: those of its kubelet, unless a preset, a file or --set
// says otherwise.
func (e *evictionCommand) configure(n *nodepressure.Node, sets []string) error {
	ranking, err := eviction.ParseRanking(e.ranking)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--ranking: %w", err))
	}
	if e.ranking == "" && slices.Contains(eviction.Rankings(), e.preset) {
		ranking = eviction.Ranking(e.preset)
	}
	if e.node != "" && e.preset == "" && e.config == "" && len(sets) == 0 {
		n.Config.Ranking = ranking
		return nil
	}
	if e.node != "" && e.preset == "" && e.config == "" {
		return cli.UsageError(errors.New("--set of a threshold with --node needs the others too: name --config or " +
			"--preset"))
	}
	dir := ""
	if len(sets) > 0 {
		if dir, err = os.MkdirTemp("", "gantry-simulate-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := writeSettings(dir, sets); err != nil {
			return err
		}
	}
	l, err := kubeconfig.Load(kubeconfig.Sources{Preset: e.preset, File: e.config, Dir: dir})
	if err != nil {
		return err
	}
	n.Config, err = kubeconfig.EvictionConfig(l.Config, l.DefaultEvictionHard, ranking)
	return err
}

// writeSettings writes changes as the last layer of a configuration.
func writeSettings(dir string, sets []string) error {
	out := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	for _, s := range sets {
		left, value, ok := strings.Cut(s, "=")
		field, signal, _ := strings.Cut(left, ".")
		if !ok || signal == "" {
			return cli.UsageError(fmt.Errorf("--set %s: must be %s.SIGNAL=VALUE", s, field))
		}
		m, _ := out[field].(map[string]string)
		if m == nil {
			m = map[string]string{}
			out[field] = m
		}
		m[signal] = value
	}
	raw, err := yaml.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "set.conf"), raw, 0o600)
}
