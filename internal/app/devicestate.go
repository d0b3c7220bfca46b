package app

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// readDevices reads claims, classes and slices; what the asker may not list is taken as absent.
func readDevices(ctx context.Context, client kubernetes.Interface,
	all metav1.ListOptions) *dynamicresources.FixedManager {
	var objects []runtime.Object
	if l, err := client.ResourceV1().ResourceClaims("").List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.ResourceV1().DeviceClasses().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.ResourceV1().ResourceSlices().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	return dynamicresources.NewFixedManager(objects...)
}
