package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/scheduler/app"
)

func factory(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
	return nil, nil
}

// A file may enable and configure a plugin by its name once it is compiled in, and not before.
//
// row: SCH-24
func TestAPluginIsKnownOnceItIsCompiledIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	const text = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: quiet-scheduler
  plugins: {multiPoint: {enabled: [{name: Quiet}]}}
  pluginConfig: [{name: Quiet, args: {most: 60}}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // no API server: what runs comes as far as that
	for want, options := range map[string][]app.Option{
		`Not found: "Quiet"`:                   nil,
		`: Not found: "Quiet"`:                 {app.WithPlugin("Other", factory)},
		"no configuration has been provided":   {app.WithPlugin("Quiet", factory)},
		"plugin names taken twice: [NodeName]": {app.WithPlugin("NodeName", factory)},
		"plugin names taken twice: [Quiet]: give each": {app.WithPlugin("Quiet", factory),
			app.WithPlugin("Quiet", factory)},
	} {
		cmd := app.New(options...)
		cmd.SetArgs([]string{"--config", file})
		cmd.SilenceErrors = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	var args struct{ Most int }
	if err := app.DecodeInto(&runtime.Unknown{Raw: []byte(`{"most":60}`)}, &args); err != nil || args.Most != 60 {
		t.Errorf("got arguments %+v and error %v, want Most 60 and none", args, err)
	}
	if err := app.DecodeInto(&runtime.Unknown{Raw: []byte(`{"mots":60}`)}, &args); err == nil {
		t.Error("an unknown argument: got no error, want one that names it")
	}
}
