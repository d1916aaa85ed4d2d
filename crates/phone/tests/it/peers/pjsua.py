"""A phone on PJSIP that answers calls by itself. It follows lines on standard input and prints what happens, a line each.

usage: pjsua.py TRANSPORT PORT PLAYED DIRECTORY CODEC MEDIA USER DOMAIN SERVER PASSWORD

What it hears in its calls is written to 1.wav, 2.wav and so on in DIRECTORY. MEDIA is plain, sdes or ice.
"""

import select
import sys

import pjsua2

MEDIA = {
    pjsua2.PJSUA_CALL_MEDIA_NONE: "none",
    pjsua2.PJSUA_CALL_MEDIA_ACTIVE: "active",
    pjsua2.PJSUA_CALL_MEDIA_LOCAL_HOLD: "held here",
    pjsua2.PJSUA_CALL_MEDIA_REMOTE_HOLD: "held there",
    pjsua2.PJSUA_CALL_MEDIA_ERROR: "failed",
}


def tell(*words):
    print(*words, flush=True)


class Call(pjsua2.Call):
    """A call; all calls stay in a list, since PJSIP does not keep them."""

    all = []

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.player = self.recorder = None
        Call.all.append(self)

    def onCallState(self, prm):
        info = self.getInfo()
        if info.state == pjsua2.PJSIP_INV_STATE_DISCONNECTED:
            # The file is complete when its recorder is gone.
            self.player = self.recorder = None
        tell("state", info.stateText, info.lastStatusCode)

    def onCallMediaState(self, prm):
        # Its parts live no longer than it does.
        info = self.getInfo()
        for index, media in enumerate(info.media):
            tell("media", MEDIA[media.status])
            if media.status == pjsua2.PJSUA_CALL_MEDIA_ACTIVE:
                self.connect(self.getAudioMedia(index))

    def connect(self, audio):
        if self.player is None:
            self.player = pjsua2.AudioMediaPlayer()
            self.player.createPlayer(played)
            self.recorder = pjsua2.AudioMediaRecorder()
            self.recorder.createRecorder(f"{directory}/{len(Call.all)}.wav")
        self.player.startTransmit(audio)
        audio.startTransmit(self.recorder)

    def onDtmfDigit(self, prm):
        tell("digit", prm.digit)

    def onCallTransferStatus(self, prm):
        tell("transfer", prm.statusCode)
        if prm.finalNotify:
            # The third answers: nobody is needed here any more.
            self.hangup(pjsua2.CallOpParam(True))


class Account(pjsua2.Account):
    def onRegState(self, prm):
        tell("registration", prm.code)

    def onIncomingCall(self, prm):
        answer = pjsua2.CallOpParam()
        answer.statusCode = 200
        Call(self, prm.callId).answer(answer)


def in_turn(change):
    """Changes a session. PJSIP refuses that until the ACK to the change before has come."""
    for _ in range(100):
        try:
            return change()
        except pjsua2.Error:
            endpoint.libHandleEvents(50)
    return change()


transport, port, played, directory, codec, media, user, domain, server, password = sys.argv[1:]
endpoint = pjsua2.Endpoint()
endpoint.libCreate()
config = pjsua2.EpConfig()
config.logConfig.level = config.logConfig.consoleLevel = 3
# Everything happens in this thread, and silence is sent, too.
config.uaConfig.threadCnt = 0
config.uaConfig.mainThreadOnly = True
config.medConfig.noVad = True
endpoint.libInit(config)
bound = pjsua2.TransportConfig()
bound.port = int(port)
bound.boundAddress = "127.0.0.1"
kinds = {
    "udp": pjsua2.PJSIP_TRANSPORT_UDP,
    "tcp": pjsua2.PJSIP_TRANSPORT_TCP,
    "tls": pjsua2.PJSIP_TRANSPORT_TLS,
}
endpoint.transportCreate(kinds[transport], bound)
endpoint.libStart()
endpoint.audDevManager().setNullDev()
for known in endpoint.codecEnum2():
    endpoint.codecSetPriority(known.codecId, 255 if known.codecId.startswith(codec) else 0)
settings = pjsua2.AccountConfig()
settings.idUri = f"sip:{user}@{domain}"
settings.regConfig.registrarUri = f"sip:{domain}"
settings.sipConfig.authCreds.append(pjsua2.AuthCredInfo("digest", "*", user, 0, password))
settings.sipConfig.proxies.append(server + ";lr")
if media == "sdes":
    settings.mediaConfig.srtpUse = pjsua2.PJMEDIA_SRTP_MANDATORY
    settings.mediaConfig.srtpSecureSignaling = 0
settings.natConfig.iceEnabled = media == "ice"
account = Account()
account.create(settings)
while True:
    endpoint.libHandleEvents(10)
    if not select.select([sys.stdin], [], [], 0)[0]:
        continue
    line = sys.stdin.readline()
    if not line:
        break
    command, *words = line.split()
    parameters = pjsua2.CallOpParam(True)
    if command == "call":
        Call(account).makeCall(words[0], parameters)
    elif command == "hangup":
        Call.all[-1].hangup(parameters)
    elif command == "digits":
        Call.all[-1].dialDtmf(words[0])
    elif command == "hold":
        in_turn(lambda: Call.all[-1].setHold(parameters))
    elif command == "resume":
        parameters.opt.flag = pjsua2.PJSUA_CALL_UNHOLD
        in_turn(lambda: Call.all[-1].reinvite(parameters))
    elif command == "transfer":
        Call.all[-1].xfer(words[0], parameters)
Call.all.clear()
account.shutdown()
endpoint.libDestroy()
