package publish

// Advertisement is the member kv_events of SGLang's /server_info.
type Advertisement struct {
	Publisher  string `json:"publisher"`
	Host       string `json:"endpoint_host"`
	Port       int    `json:"endpoint_port_base"`
	Topic      string `json:"topic"`
	BlockSize  int    `json:"block_size"`
	DPSize     int    `json:"dp_size"`
	LoadPort   int    `json:"load_endpoint_port_base,omitempty"`
	LoadTopic  string `json:"load_topic,omitempty"`
	ReplayPort int    `json:"replay_endpoint_port_base,omitempty"`
}

// Advertised is what /server_info tells of the events; nil is nothing, as for
// vLLM, which has no such place, or without ports.
func (p *Publisher) Advertised() *Advertisement {
	o := p.opts
	if o.Dialect.IsVLLM() || o.Ports.Events == 0 {
		return nil
	}
	a := &Advertisement{
		Publisher: "zmq", Host: "*", Port: o.Ports.Events, Topic: o.Topic, BlockSize: o.PageSize, DPSize: o.DPSize,
		ReplayPort: o.Ports.Replay, LoadPort: o.Ports.Load,
	}
	if a.LoadPort != 0 {
		a.LoadTopic = DefaultLoadTopic
	}
	if lie, on := p.faults.use(Advertise, 0); on {
		override(&a.Host, lie.Host)
		override(&a.Port, lie.EventPort)
		override(&a.DPSize, lie.DPSize)
		override(&a.BlockSize, lie.BlockSize)
	}
	return a
}

func override[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}
