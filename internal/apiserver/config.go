package apiserver

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver/encryptioncheck"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
)

// Config is what a server is made from. The zero value of a field means the default named beside
// it.
type Config struct {
	Listen   Listen
	Files    Files
	Etcd     store.Options    // embedded under DataDir/etcd unless Servers are named
	DataDir  string           // state of this server; needed for embedded etcd
	Services ServiceRanges    // addresses and ports that Services get
	Kubelets pods.Connections // how log, exec, attach, portforward and proxy reach nodes
	Journal  Journal          // where facts about Pods go and come from
	// Access makes authentication, authorization, admission and their kinds. nil trusts in-process
	// clients and nobody else.
	Access func(AccessDeps) (*Access, error)
	// Audit says what is recorded of requests and where; nil records nothing.
	Audit *options.AuditOptions
	// Encryption says how values are encrypted in the store.
	Encryption encryptioncheck.Options
	FlowControl
	// Features says what is served that is off otherwise.
	Features features.Features
	Omit
	// Controllers run inside the server, as they need its store. They start when the first objects
	// are made and run until the server ends.
	Controllers []Controller
}

// Omit leaves parts of a server out.
type Omit struct {
	// OpenAPIv2Off leaves out the old OpenAPI document (10-15 MB); kubectl before 1.27 needs it.
	OpenAPIv2Off bool
	// AggregatorOff and CustomResourcesOff leave out aggregated APIs and custom resources.
	AggregatorOff, CustomResourcesOff bool
}

// Controller is a controller that needs the store of the server it runs in.
type Controller struct {
	Name string // in the log
	// Run works until ctx ends; it is called in a goroutine of its own, once.
	Run func(ctx context.Context, e ControllerContext)
}

// ControllerContext is what the server gives the controllers that run inside it.
type ControllerContext struct {
	Client     kubernetes.Interface // as the server itself
	Config     *rest.Config         // for other clients of the same rights
	Etcd       *clientv3.Client     // shared by all; the server closes it
	Migrations <-chan struct{}      // receives when a StorageVersionMigration is stored
}

// FlowControl says how much work a server takes on, and whose.
type FlowControl struct {
	// PriorityAndFairness divides the server among its users by FlowSchemas and
	// PriorityLevelConfigurations; off, only the number of requests at once is bounded. Upstream
	// has it on.
	PriorityAndFairness bool
	// MaxInFlight bounds the requests that are worked on at once.
	MaxInFlight MaxInFlight
}

// MaxInFlight is how many short requests a server works on at once; further ones are answered 429.
// Watches and streams do not count, and system:masters always get an answer. A negative value is no
// bound. With priority and fairness the sum of both is divided among the levels, and must be
// positive.
type MaxInFlight struct {
	NonMutating int // 400
	Mutating    int // 200
}

// limits are the limits as the library takes them: 0 is none.
func (f MaxInFlight) limits() (reads, writes int) {
	return max(cmp.Or(f.NonMutating, 400), 0), max(cmp.Or(f.Mutating, 200), 0)
}

// Listen is where the server answers.
type Listen struct {
	Address  string       // 0.0.0.0
	Port     int          // 6443; a negative value picks a free one
	Listener net.Listener // takes the place of Address and Port
	// address of the kubernetes Service's endpoint; the first global one of the host when not set
	Advertise netip.Addr
	External  string // host name in URLs handed out; the advertised address when empty
}

// Files are the PEM files a server reads; all but the client CAs are needed to listen.
type Files struct {
	Cert, Key             string // serving pair
	ClientCA              string // authorities of client certificates
	ProxyCert, ProxyKey   string // client pair shown to aggregated API servers
	RequestHeaderCA       string // authority of front proxies
	ServiceAccountSigning string // private key; the rest of service accounts is Access's
}

// ServiceRanges are the pools that Services draw from.
type ServiceRanges struct {
	CIDRs              []netip.Prefix // 10.96.0.0/16
	NodePortLow        int            // 30000
	NodePortHigh       int            // 32767, inclusive
	KubernetesNodePort int            // 0: the kubernetes Service is a ClusterIP
}

// Journal joins the server to the journal: Sink takes what the server sees, Reader and Appender
// serve podjournals.
type Journal struct {
	Sink     journal.Sink     // nil drops facts
	Reader   journal.Reader   // nil serves no podjournals
	Appender journal.Appender // nil refuses entries from remote components
}
