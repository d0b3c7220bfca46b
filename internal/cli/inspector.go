package cli

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// Inspector is what the subcommands that look at one Pod share.
type Inspector struct {
	Out        io.Writer
	Kubeconfig string
	Namespace  string
	Output     string
}

func (e *Inspector) Flags(c *cobra.Command, outputs string) {
	c.Flags().StringVar(&e.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	c.Flags().StringVarP(&e.Namespace, "namespace", "n", "", "namespace of the Pod (default: the kubeconfig's)")
	c.Flags().StringVarP(&e.Output, "output", "o", "", "form of the answer: "+outputs)
}

func (e *Inspector) NewClient() (kubernetes.Interface, error) {
	cfg, namespace, err := RestConfig(e.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if e.Namespace == "" {
		e.Namespace = namespace
	}
	// one question reads four dozen kinds: client-go's 5 a second would take seconds
	cfg.QPS, cfg.Burst = 100, 200
	// thousands of Pods take a multiple of that time as JSON
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(cfg)
}
