package memapi

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// podMetrics answers a list of what Pods take.
func (s *Server) podMetrics(c *call) (runtime.Object, error) {
	which, err := labels.Parse(c.http.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := s.metrics(c.Namespace, which)
	out.SetGroupVersionKind(metricsv1beta1.SchemeGroupVersion.WithKind("PodMetricsList"))
	return out, nil
}
