package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// dns measures the cluster's DNS: A records of 1,000 Services are asked for by UDP from 1 and from
// 32 clients, each over one socket and one question at a time; the clients share the machine with
// Gantry.
func (b *bench) dns(ctx context.Context) ([]result.Figure, error) {
	i, c, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return nil, err
	}
	services := b.times(1000)
	for k := range services {
		s := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", k)},
			Spec:       v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}},
		}
		if _, err := c.client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	at, err := c.dnsServer(ctx)
	if err != nil {
		return nil, err
	}
	var figures []result.Figure
	for _, clients := range []int{1, 32} {
		rate, took, err := ask(at, clients, services, b.times(100_000))
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%d clients", clients)
		figures = append(figures, result.Value(name+"/queries", "/s", rate), result.Durations(name+"/query", took))
	}
	return figures, nil
}

// dnsServer returns the DNS server's address from the EndpointSlice of kube-dns.
func (c *cluster) dnsServer(ctx context.Context) (string, error) {
	ofDNS := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kube-dns"}
	list, err := c.client.DiscoveryV1().EndpointSlices("kube-system").List(ctx, ofDNS)
	if err != nil {
		return "", err
	}
	for _, s := range list.Items {
		if len(s.Endpoints) > 0 && len(s.Ports) > 0 && s.Ports[0].Port != nil {
			return net.JoinHostPort(s.Endpoints[0].Addresses[0], fmt.Sprint(*s.Ports[0].Port)), nil
		}
	}
	return "", errors.New("the cluster's DNS server is not published: is --dns=false given?")
}

// ask sends n questions and returns how many were answered in a second and how long each took.
func ask(at string, clients, services, n int) (float64, []time.Duration, error) {
	took, errs := make([][]time.Duration, clients), make([]error, clients)
	began := time.Now()
	var all sync.WaitGroup
	for k := range clients {
		all.Go(func() { took[k], errs[k] = askFrom(at, k, services, n/clients) })
	}
	all.Wait()
	rate := float64(n/clients*clients) / time.Since(began).Seconds()
	return rate, slices.Concat(took...), errors.Join(errs...)
}

func askFrom(at string, first, services, n int) ([]time.Duration, error) {
	c, err := dns.DialTimeout("udp", at, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	took := make([]time.Duration, 0, n)
	for k := range n {
		q := new(dns.Msg).SetQuestion(fmt.Sprintf("s%d.default.svc.cluster.local.", (first+k)%services), dns.TypeA)
		began := time.Now()
		if err := errors.Join(c.SetDeadline(began.Add(5*time.Second)), c.WriteMsg(q)); err != nil {
			return nil, err
		}
		r, err := c.ReadMsg()
		if err != nil {
			return nil, err
		}
		if len(r.Answer) != 1 {
			code := dns.RcodeToString[r.Rcode]
			return nil, fmt.Errorf("%s: %d answers (%s), want one", q.Question[0].Name, len(r.Answer), code)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
