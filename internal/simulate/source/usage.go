package source

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Usage reads what the Pods of a cluster take from its metrics API. The error is that it has none,
// or that the caller may not read it.
func Usage(ctx context.Context, c kubernetes.Interface) (usage.Figures, error) {
	client, ok := c.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || client == nil {
		return nil, errors.New("the client cannot ask the metrics API")
	}
	raw, err := client.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/pods").SetHeader("Accept", "application/json").
		Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list metricsv1beta1.PodMetricsList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	out := usage.Figures{}
	for i := range list.Items {
		p := &list.Items[i]
		of := map[string]usage.Amounts{}
		for _, c := range p.Containers {
			of[c.Name] = usage.Amounts{CPU: c.Usage.Cpu().MilliValue(), Memory: c.Usage.Memory().Value()}
		}
		out[p.Namespace+"/"+p.Name] = of
	}
	return out, nil
}
